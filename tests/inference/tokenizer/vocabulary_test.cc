// What a file says about its vocabulary, and what is refused.
#include "inference/tokenizer/vocabulary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "inference/tokenizer/vocabulary_tokenizer.h"
#include "tests/inference/tokenizer/test_vocabulary.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace terrace::tokenizer {
namespace {

using test_support::GgufWriter;
using testing::ElementsAre;
using testing::HasSubstr;

// The keys of a file, each of which a test may change or leave out.
struct Keys {
  std::optional<std::string> model = "gpt2", pre = "smollm";
  std::vector<std::string> tokens = {"a", "b", "ab", "<s>", "</s>"};
  std::vector<std::int32_t> types = {1, 1, 1, 3, 3};
  std::vector<std::string> merges = {"a b"};
  std::vector<float> scores;
  std::vector<std::pair<std::string, std::uint32_t>> ids = {{"bos", 3}, {"eos", 4}};
  std::optional<bool> add_bos, add_space_prefix;
};

Keys sentencepiece() {
  Keys keys;
  keys.model = "llama";
  keys.pre.reset();
  keys.merges.clear();
  keys.scores = {-1, -2, -3, 0, 0};
  return keys;
}

class VocabularyTest : public testing::Test {
 protected:
  static GgufWriter writer_of(const Keys& keys) {
    GgufWriter writer;
    const std::string prefix = "tokenizer.ggml.";
    if (keys.model) writer.add<std::string>(prefix + "model", *keys.model);
    if (keys.pre) writer.add<std::string>(prefix + "pre", *keys.pre);
    if (!keys.tokens.empty()) writer.add_array(prefix + "tokens", keys.tokens);
    if (!keys.types.empty()) writer.add_array(prefix + "token_type", keys.types);
    if (!keys.merges.empty()) writer.add_array(prefix + "merges", keys.merges);
    if (!keys.scores.empty()) writer.add_array(prefix + "scores", keys.scores);
    for (const auto& [name, id] : keys.ids) {
      writer.add<std::uint32_t>(prefix + name + "_token_id", id);
    }
    if (keys.add_bos) writer.add<bool>(prefix + "add_bos_token", *keys.add_bos);
    if (keys.add_space_prefix) {
      writer.add<bool>(prefix + "add_space_prefix", *keys.add_space_prefix);
    }
    return writer;
  }

  Result<std::unique_ptr<Tokenizer>> load(const GgufWriter& writer) {
    const std::string path = directory_.file("vocabulary.gguf");
    EXPECT_TRUE(writer.write(path).ok());
    const auto file = gguf::File::open(path);
    if (!file) return error(file.error());
    return Tokenizer::load(**file);
  }
  Result<std::unique_ptr<Tokenizer>> load(const Keys& keys) { return load(writer_of(keys)); }

  void expect_refused(const Keys& keys, const std::string& why,
                      StatusCode code = StatusCode::invalid_argument) {
    const auto loaded = load(keys);
    ASSERT_FALSE(loaded) << "expected: " << why;
    EXPECT_EQ(loaded.error().code(), code) << loaded.error().to_string();
    EXPECT_THAT(loaded.error().message(), HasSubstr(why));
    EXPECT_THAT(loaded.error().message(), HasSubstr("vocabulary.gguf"));
    EXPECT_EQ(loaded.error().message().find('\n'), std::string::npos);
    EXPECT_LT(loaded.error().message().size(), 400u);
  }

  test_support::TempDir directory_;
};

TEST_F(VocabularyTest, SmallestFilesLoad) {
  const auto bpe = load(Keys{});
  ASSERT_TRUE(bpe) << bpe.error().to_string();
  EXPECT_EQ((*bpe)->size(), 5u);
  EXPECT_THAT((*bpe)->encode("aab"), ElementsAre(0, 2));
  EXPECT_EQ((*bpe)->bos(), 3);
  EXPECT_THAT((*bpe)->stop_tokens(), ElementsAre(4));
  const auto pieces = load(sentencepiece());
  ASSERT_TRUE(pieces) << pieces.error().to_string();
  EXPECT_THAT((*pieces)->encode("aab"), ElementsAre(0, 2));
}

TEST_F(VocabularyTest, DefaultsBySchemeUnlessTheFileSays) {
  EXPECT_FALSE((*load(Keys{}))->adds_bos());
  Keys keys;
  keys.add_bos = true;
  EXPECT_TRUE((*load(keys))->adds_bos());
  for (const char* pre : {"llama-bpe", "llama3"}) {
    keys = Keys{};
    keys.pre = pre;
    EXPECT_TRUE((*load(keys))->adds_bos());
  }
  keys.add_bos = false;
  EXPECT_FALSE((*load(keys))->adds_bos());
  EXPECT_TRUE((*load(sentencepiece()))->adds_bos());

  // There is nothing to add.
  keys = sentencepiece();
  keys.ids.clear();
  EXPECT_FALSE((*load(keys))->adds_bos());
  EXPECT_EQ((*load(keys))->bos(), std::nullopt);
}

TEST_F(VocabularyTest, SpacePrefixOfSentencePieceByDefault) {
  Keys keys = sentencepiece();
  keys.tokens[1] =
      "\xe2\x96\x81"
      "a";
  keys.tokens.push_back("\xe2\x96\x81");
  keys.types.push_back(1);
  keys.scores.push_back(-5);
  EXPECT_THAT((*load(keys))->encode("a"), ElementsAre(1));
  keys.add_space_prefix = false;
  EXPECT_THAT((*load(keys))->encode("a"), ElementsAre(0));
}

TEST_F(VocabularyTest, StopTokensByKeyAndByText) {
  Keys keys;
  keys.tokens = {"a", "b", "ab", "<|eot_id|>", "<|endoftext|>", "<|x|>", "<|y|>", "<|z|>"};
  keys.types = {1, 1, 1, 3, 3, 3, 3, 3};
  keys.ids = {{"eos", 5}, {"eot", 6}, {"eom", 7}};
  EXPECT_THAT((*load(keys))->stop_tokens(), ElementsAre(3, 4, 5, 6, 7));
}

// "</s>" may be a plain piece of text, of an HTML document say.
TEST_F(VocabularyTest, PlainTokensDoNotStopByTheirText) {
  Keys keys;
  keys.types[4] = 1;
  keys.ids.clear();
  EXPECT_THAT((*load(keys))->stop_tokens(), ElementsAre());
}

TEST_F(VocabularyTest, MinusOneIsNoToken) {
  Keys keys;
  keys.ids = {{"bos", std::numeric_limits<std::uint32_t>::max()}};
  EXPECT_EQ((*load(keys))->bos(), std::nullopt);
}

TEST_F(VocabularyTest, TypesMayBeAbsentFromByteLevelFiles) {
  Keys keys;
  keys.types.clear();
  EXPECT_THAT((*load(keys))->encode("ab"), ElementsAre(2));
}

TEST_F(VocabularyTest, UnknownTokenizersAreUnimplemented) {
  Keys keys;
  keys.model = "bert\n";
  expect_refused(keys, "tokenizer model \"bert?\" is not known", StatusCode::unimplemented);
  keys = Keys{};
  keys.pre = "qwen2";
  expect_refused(keys, "pre-tokenizer \"qwen2\" is not known", StatusCode::unimplemented);
  keys.pre.reset();
  expect_refused(keys, "pre-tokenizer \"\" is not known", StatusCode::unimplemented);
}

TEST_F(VocabularyTest, MissingOrWrongArraysAreRefused) {
  Keys keys;
  keys.model.reset();
  expect_refused(keys, "tokenizer.ggml.model is missing");
  keys = Keys{};
  keys.tokens.clear();
  expect_refused(keys, "tokenizer.ggml.tokens is missing");
  keys = Keys{};
  keys.merges.clear();
  expect_refused(keys, "tokenizer.ggml.merges is missing");
  keys = Keys{};
  keys.types.pop_back();
  expect_refused(keys, "tokenizer.ggml.token_type has 4 entries for 5 tokens");
  keys = Keys{};
  keys.types[2] = 7;
  expect_refused(keys, "tokenizer.ggml.token_type of token 2 is 7");
  keys.types[2] = -1;
  expect_refused(keys, "tokenizer.ggml.token_type");

  keys = sentencepiece();
  keys.scores.clear();
  expect_refused(keys, "tokenizer.ggml.scores has 0 entries for 5 tokens");
  keys = sentencepiece();
  keys.scores.push_back(0);
  expect_refused(keys, "tokenizer.ggml.scores has 6 entries for 5 tokens");
  keys = sentencepiece();
  keys.scores[1] = std::numeric_limits<float>::quiet_NaN();
  expect_refused(keys, "tokenizer.ggml.scores of token 1 is not a number");
  keys = sentencepiece();
  keys.types.clear();
  expect_refused(keys, "tokenizer.ggml.token_type has 0 entries");
}

TEST_F(VocabularyTest, IdsOutOfRangeAreRefused) {
  for (const char* name : {"bos", "eos", "eot", "eom", "unknown"}) {
    Keys keys;
    keys.ids = {{name, 5}};
    expect_refused(keys, std::string(name) + "_token_id is 5 of 5 tokens");
  }
  GgufWriter writer = writer_of(Keys{});
  writer.add<std::string>("tokenizer.ggml.eot_token_id", "4");
  const auto loaded = load(writer);
  ASSERT_FALSE(loaded);
  EXPECT_THAT(loaded.error().message(), HasSubstr("eot_token_id is no token id"));
}

TEST_F(VocabularyTest, FlagsOfAnotherKindAreRefused) {
  for (const char* name : {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.add_space_prefix"}) {
    GgufWriter writer = writer_of(Keys{});
    writer.add<std::string>(name, "yes");
    const auto loaded = load(writer);
    ASSERT_FALSE(loaded) << name;
    EXPECT_THAT(loaded.error().message(), HasSubstr(std::string(name) + " is not true or false"));
  }
}

TEST_F(VocabularyTest, DuplicateTokensAreRefusedButForEmptyOnes) {
  Keys keys;
  keys.tokens[1] = "a";
  expect_refused(keys, "token 1 has the same text as token 0: \"a\"");
  keys = Keys{};
  keys.tokens[3] = keys.tokens[4] = "";
  EXPECT_TRUE(load(keys));
  keys.tokens[3] = keys.tokens[4] = std::string(100000, '\n');
  expect_refused(keys, "token 4 has the same text as token 3");
}

TEST_F(VocabularyTest, MergesThatTakeOrMakeNoTokenAreRefused) {
  const std::pair<std::string, std::string> cases[] = {
      {"ab", "entry 1, \"ab\", is not two texts"},
      {"", "entry 1, \"\", is not two texts"},
      {" b", "entry 1, \" b\", is not two texts"},
      {"a x", "takes a text that is no token"},
      {"a ", "takes a text that is no token"},
      {"b a", "makes a text that is no token"},
      {"a \xe6\xbc\xa2", "holds a character that stands for no byte"},
      {"a \xc3", "holds a character that stands for no byte"},
      {"a b c", "holds a character that stands for no byte"},
  };
  for (const auto& [merge, why] : cases) {
    Keys keys;
    keys.merges.push_back(merge);
    expect_refused(keys, why);
  }
}

TEST_F(VocabularyTest, ByteTokensMustNameAByte) {
  for (const char* text : {"<0x4>", "<0xGG>", "<0x4G>", "0x41", "<0x041>", ""}) {
    Keys keys = sentencepiece();
    keys.tokens[1] = text;
    keys.types[1] = 6;
    expect_refused(keys, "token 1 is a byte but its text");
  }
}

}  // namespace
}  // namespace terrace::tokenizer
