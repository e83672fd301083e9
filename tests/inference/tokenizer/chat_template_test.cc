#include "inference/tokenizer/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inference/tokenizer/template_literals.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace terrace::tokenizer {
namespace {

using testing::ElementsAre;

struct Source {
  std::string chat_template;
  std::vector<std::string> tokens = {"<s>", "a"};
  bool add_bos = false;
};

Result<ChatTemplate> detect(const Source& source) {
  const test_support::TempDir directory;
  test_support::GgufWriter writer;
  writer.add_array("tokenizer.ggml.tokens", source.tokens);
  writer.add<std::uint32_t>("tokenizer.ggml.bos_token_id", 0);
  writer.add<bool>("tokenizer.ggml.add_bos_token", source.add_bos);
  if (!source.chat_template.empty()) {
    writer.add<std::string>("tokenizer.chat_template", source.chat_template);
  }
  const std::string path = directory.file("chat.gguf");
  EXPECT_TRUE(writer.write(path).ok());
  const auto file = gguf::File::open(path);
  EXPECT_TRUE(file) << file.error().to_string();
  return ChatTemplate::detect(**file);
}

const std::vector<Message> kHi = {{"user", "Hi"}};

TEST(ChatTemplate, DefaultSystemIsTheTemplatesOwn) {
  // Written with a newline in a literal, an escape in one, and outside of literals.
  for (const char* turn : {"{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}",
                           R"({{- "<|im_start|>system\nBe kind.<|im_end|>\n" -}})",
                           "<|im_start|>system\nBe kind.<|im_end|>\n"}) {
    const auto chat = detect({std::string("{% if messages[0]['role'] != 'system' %}") + turn +
                              "{% endif %}{{'<|im_start|>' + message['role']}}"});
    ASSERT_TRUE(chat) << chat.error().to_string();
    EXPECT_EQ(chat->default_system, "Be kind.") << turn;
    EXPECT_EQ(chat->render(kHi),
              "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
              "<|im_start|>assistant\n");
  }
}

TEST(ChatTemplate, DefaultSystemOnlyWhereTheConversationHasNone) {
  ChatTemplate chat{ChatFormat::chatml, "Be kind.", ""};
  const std::vector<Message> with_system = {{"system", ""}, {"user", "Hi"}};
  EXPECT_EQ(chat.render(with_system),
            "<|im_start|>system\n<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(chat.render({}), "<|im_start|>assistant\n");
}

TEST(ChatTemplate, NoDefaultSystemWhereTheTemplateWritesNone) {
  const auto chat =
      detect({"{% for m in messages %}{{ '<|im_start|>system\n' + m['content'] + '<|im_end|>' }}"
              "{# '<|im_start|>system\nA comment.<|im_end|>' #}"
              "<|im_start|>system\n{{ m['content'] }}<|im_end|>{% endfor %}"});
  ASSERT_TRUE(chat) << chat.error().to_string();
  EXPECT_EQ(chat->default_system, std::nullopt);
  EXPECT_EQ(chat->render(kHi), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, ChatMlStartsWithBosWhereTheTemplateDoes) {
  const auto chat = detect({"{{ bos_token }}{{ '<|im_start|>' + x + '<|im_end|>' }}"});
  ASSERT_TRUE(chat) << chat.error().to_string();
  EXPECT_EQ(chat->render(kHi), "<s><|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplate, Llama3TrimsContents) {
  const auto chat = detect({"{{ '<|start_header_id|>' + x + '<|end_header_id|>' }}"});
  ASSERT_TRUE(chat) << chat.error().to_string();
  EXPECT_EQ(chat->format, ChatFormat::llama3);
  const std::vector<Message> messages = {{"system", " \n"}, {"user", "\t a  b\r\n"}};
  EXPECT_EQ(chat->render(messages),
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\na  b<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

TEST(ChatTemplate, FromTheVocabularyWhereThereIsNoTemplate) {
  const auto chatml = detect({"", {"<s>", "<|im_start|>", "<|im_end|>"}});
  ASSERT_TRUE(chatml) << chatml.error().to_string();
  EXPECT_EQ(chatml->format, ChatFormat::chatml);
  EXPECT_EQ(chatml->bos, "");
  const auto with_bos = detect({"", {"<s>", "<|im_start|>", "<|im_end|>"}, true});
  ASSERT_TRUE(with_bos) << with_bos.error().to_string();
  EXPECT_EQ(with_bos->bos, "<s>");
  const auto llama3 = detect({"", {"<s>", "<|start_header_id|>", "<|end_header_id|>"}});
  ASSERT_TRUE(llama3) << llama3.error().to_string();
  EXPECT_EQ(llama3->format, ChatFormat::llama3);
}

TEST(ChatTemplate, OthersAreUnimplemented) {
  for (const Source& source : {Source{"[INST] {{ message }} [/INST]"}, Source{""}}) {
    const auto chat = detect(source);
    ASSERT_FALSE(chat);
    EXPECT_EQ(chat.error().code(), StatusCode::unimplemented);
    EXPECT_THAT(chat.error().message(), testing::HasSubstr("chat.gguf"));
  }
}

TEST(TemplateLiterals, InAndOutsideOfTags) {
  EXPECT_THAT(template_literals("a{{ 'b' + \"c'\" }}d{% if x == 'e}}' %}f{# 'g' #}"),
              ElementsAre("a", "b", "c'", "d", "e}}", "f"));
  EXPECT_THAT(template_literals(R"({{ 'a\n\'\\b\t\r' }})"), ElementsAre("a\n'\\b\t\r"));
}

TEST(TemplateLiterals, WhatIsNotClosedEndsWithTheText) {
  EXPECT_THAT(template_literals("{{ 'a"), ElementsAre("a"));
  EXPECT_THAT(template_literals("{{ 'a\\"), ElementsAre("a\\"));
  EXPECT_THAT(template_literals("a{%"), ElementsAre("a"));
  EXPECT_THAT(template_literals("a{# b"), ElementsAre("a"));
  EXPECT_THAT(template_literals("{"), ElementsAre("{"));
  EXPECT_THAT(template_literals(""), ElementsAre());
}

}  // namespace
}  // namespace terrace::tokenizer
