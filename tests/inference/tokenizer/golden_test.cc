// Ids and rendered conversations against those of another implementation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "inference/gguf/gguf_file.h"
#include "inference/tokenizer/chat_template.h"
#include "inference/tokenizer/tokenizer.h"
#include "tests/inference/tokenizer/golden_files.h"

namespace terrace::tokenizer {
namespace {

struct Golden {
  std::string name, tokens, model;
  bool byte_level;
};

void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

class GoldenTokens : public testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_FILE(GetParam().tokens);
    SKIP_WITHOUT_FILE(GetParam().model);
    const auto file = gguf::File::open(GetParam().model);
    ASSERT_TRUE(file) << file.error().to_string();
    auto loaded = Tokenizer::load(**file);
    ASSERT_TRUE(loaded) << loaded.error().to_string();
    tokenizer_ = std::move(*loaded);  // outlives the file
    entries_ = read_json(GetParam().tokens);
    ASSERT_GT(entries_.size(), 200u);
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  nlohmann::json entries_;
};

TEST_P(GoldenTokens, PlainText) {
  for (const auto& entry : entries_) {
    const std::string text = entry["text"];
    EXPECT_EQ(tokenizer_->encode(text), entry["ids"].get<std::vector<Token>>()) << entry;
  }
}

TEST_P(GoldenTokens, SpecialTexts) {
  for (const auto& entry : entries_) {
    const std::string text = entry["text"];
    const auto& ids = entry.contains("ids_special") ? entry["ids_special"] : entry["ids"];
    EXPECT_EQ(tokenizer_->encode(text, {.parse_special = true}), ids.get<std::vector<Token>>())
        << entry;
  }
}

TEST_P(GoldenTokens, DecodeUndoesEncode) {
  for (const auto& entry : entries_) {
    const std::string text = entry["text"];
    // The demo model's vocabulary has no tokens for some control characters and rare planes; no
    // text of the golden file holds one.
    EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(text)), text) << entry;
    // A space is put in front of text behind a special token too, but only the first is dropped.
    if (!GetParam().byte_level) continue;
    EXPECT_EQ(tokenizer_->decode(tokenizer_->encode(text, {.parse_special = true}), true), text);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Vocabularies, GoldenTokens,
    testing::Values(Golden{"smollm", golden_path("tokens_smollm.json"), demo_model_path(), true},
                    Golden{"llama_bpe", golden_path("tokens_llama-bpe.json"),
                           golden_path("vocab/ggml-vocab-llama-bpe.gguf"), true},
                    Golden{"llama_spm", golden_path("tokens_llama-spm.json"),
                           golden_path("vocab/ggml-vocab-llama-spm.gguf"), false}),
    [](const auto& instance) { return instance.param.name; });

std::vector<Message> messages_of(const nlohmann::json& entry) {
  std::vector<Message> messages;
  for (const auto& message : entry["messages"]) {
    messages.push_back({message["role"], message["content"]});
  }
  return messages;
}

TEST(GoldenChat, ChatMlOfTheDemoModel) {
  SKIP_WITHOUT_FILE(golden_path("chat.json"));
  SKIP_WITHOUT_FILE(demo_model_path());
  const auto file = gguf::File::open(demo_model_path());
  ASSERT_TRUE(file) << file.error().to_string();
  const auto chat = ChatTemplate::detect(**file);
  ASSERT_TRUE(chat) << chat.error().to_string();
  EXPECT_EQ(chat->format, ChatFormat::chatml);
  const auto tokenizer = Tokenizer::load(**file);
  ASSERT_TRUE(tokenizer) << tokenizer.error().to_string();
  for (const auto& entry : read_json(golden_path("chat.json"))) {
    const std::string text = chat->render(messages_of(entry));
    EXPECT_EQ(text, entry["smollm2"]);
    EXPECT_EQ((*tokenizer)->encode(text, {.parse_special = true}),
              entry["smollm2_ids"].get<std::vector<Token>>());
  }
}

TEST(GoldenChat, Llama3) {
  const std::string vocabulary = golden_path("vocab/ggml-vocab-llama-bpe.gguf");
  SKIP_WITHOUT_FILE(golden_path("chat.json"));
  SKIP_WITHOUT_FILE(vocabulary);
  const auto file = gguf::File::open(vocabulary);
  ASSERT_TRUE(file) << file.error().to_string();
  const auto chat = ChatTemplate::detect(**file);
  ASSERT_TRUE(chat) << chat.error().to_string();
  EXPECT_EQ(chat->format, ChatFormat::llama3);
  for (const auto& entry : read_json(golden_path("chat.json"))) {
    EXPECT_EQ(chat->render(messages_of(entry)), entry["llama3"]);
  }
}

TEST(GoldenVocabulary, WhatTheFilesSay) {
  const std::string bpe = golden_path("vocab/ggml-vocab-llama-bpe.gguf");
  const std::string spm = golden_path("vocab/ggml-vocab-llama-spm.gguf");
  SKIP_WITHOUT_FILE(bpe);
  SKIP_WITHOUT_FILE(spm);
  const auto load = [](const std::string& path) {
    return std::move(*Tokenizer::load(**gguf::File::open(path)));
  };
  const auto llama3 = load(bpe);
  EXPECT_EQ(llama3->size(), 128256u);
  EXPECT_EQ(llama3->bos(), 128000);
  EXPECT_TRUE(llama3->adds_bos());  // the file does not say: the default of its pre-tokenizer
  EXPECT_THAT(llama3->stop_tokens(), testing::ElementsAre(128001, 128009));
  const auto llama2 = load(spm);
  EXPECT_EQ(llama2->size(), 32000u);
  EXPECT_EQ(llama2->bos(), 1);
  EXPECT_TRUE(llama2->adds_bos());
  EXPECT_THAT(llama2->stop_tokens(), testing::ElementsAre(2));

  SKIP_WITHOUT_FILE(demo_model_path());
  const auto demo = load(demo_model_path());
  EXPECT_EQ(demo->bos(), 1);
  EXPECT_FALSE(demo->adds_bos());
  EXPECT_THAT(demo->stop_tokens(), testing::ElementsAre(0, 2));
}

}  // namespace
}  // namespace terrace::tokenizer
