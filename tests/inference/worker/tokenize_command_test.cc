#include "inference/worker/tokenize_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

namespace terrace::inference {
namespace {

using testing::HasSubstr;

class TokenizeCommandTest : public testing::Test {
 protected:
  TokenizeCommandTest() {
    test_support::GgufWriter writer;
    writer.add<std::string>("tokenizer.ggml.model", "gpt2");
    writer.add<std::string>("tokenizer.ggml.pre", "smollm");
    writer.add_array<std::string>("tokenizer.ggml.tokens", {"a", "b", "ab", "<s>", "<", "s", ">"});
    writer.add_array<std::int32_t>("tokenizer.ggml.token_type", {1, 1, 1, 3, 1, 1, 1});
    writer.add_array<std::string>("tokenizer.ggml.merges", {"a b"});
    writer.add<std::uint32_t>("tokenizer.ggml.bos_token_id", 3);
    writer.add<bool>("tokenizer.ggml.add_bos_token", true);
    arguments_.model = directory_.file("model.gguf");
    EXPECT_TRUE(writer.write(arguments_.model).ok());
  }

  int run(const std::string& input = "") {
    std::istringstream in(input);
    out_.str("");
    err_.str("");
    return run_tokenize(arguments_, in, out_, err_);
  }

  void expect_error(const std::string& why, const std::string& input = "") {
    EXPECT_EQ(run(input), 1);
    const std::string message = err_.str();
    EXPECT_THAT(message, HasSubstr(why));
    EXPECT_EQ(std::count(message.begin(), message.end(), '\n'), 1) << message;
    EXPECT_EQ(message.back(), '\n');
  }

  test_support::TempDir directory_;
  TokenizeArguments arguments_;
  std::ostringstream out_, err_;
};

TEST_F(TokenizeCommandTest, TextAsOneArrayWithoutBos) {
  arguments_.text = "aab<s>";
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(out_.str(), "[0,2,4,5,6]\n");
  arguments_.special = true;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(out_.str(), "[0,2,3]\n");
  arguments_.text = "";
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(out_.str(), "[]\n");
  EXPECT_EQ(err_.str(), "");
}

TEST_F(TokenizeCommandTest, FileOrTheWholeInput) {
  EXPECT_EQ(run("ab\nb"), 0);
  EXPECT_EQ(out_.str(), "[2,1]\n");  // the vocabulary has no newline
  arguments_.file = directory_.file("text");
  ASSERT_TRUE(test_support::write_file(*arguments_.file,
                                       "b\xff"
                                       "ab")
                  .ok());
  EXPECT_EQ(run("ignored"), 0);
  EXPECT_EQ(out_.str(), "[1,2]\n");
  ASSERT_TRUE(test_support::write_file(*arguments_.file, "").ok());
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(out_.str(), "[]\n");
}

TEST_F(TokenizeCommandTest, AnArrayForEachLine) {
  arguments_.jsonl = true;
  EXPECT_EQ(run("\"ab\"\n\"\"\n  \"\\u0061\\nb\" \r\n\"b\""), 0);
  EXPECT_EQ(out_.str(), "[2]\n[]\n[0,1]\n[1]\n");
  EXPECT_EQ(run(""), 0);
  EXPECT_EQ(out_.str(), "");
}

TEST_F(TokenizeCommandTest, AMalformedLineIsNamed) {
  arguments_.jsonl = true;
  for (const char* line : {"", "ab", "{}", "\"a\" \"b\"", "\"a", "\"\\ud800\"", "\"\xff\""}) {
    expect_error("line 2 of the input is not a JSON string",
                 std::string("\"a\"\n") + line + "\n\"b\"\n");
    EXPECT_EQ(out_.str(), "[0]\n");
  }
}

TEST_F(TokenizeCommandTest, WhatCannotBeReadIsOneLine) {
  arguments_.file = directory_.file("absent");
  expect_error("could not open " + *arguments_.file + ": No such file or directory");
  arguments_.file = directory_.path();
  expect_error("could not read " + *arguments_.file + ": Is a directory");
  arguments_.file.reset();
  arguments_.model = directory_.file("absent.gguf");
  expect_error("absent.gguf");
  ASSERT_TRUE(test_support::write_file(arguments_.model, "not a model").ok());
  expect_error("absent.gguf");
  test_support::GgufWriter writer;
  ASSERT_TRUE(writer.write(arguments_.model).ok());
  expect_error("tokenizer.ggml.model is missing");
}

TEST_F(TokenizeCommandTest, OnlyOneSource) {
  arguments_.text = "a";
  arguments_.jsonl = true;
  expect_error("only one of --text, --file and --jsonl");
}

TEST_F(TokenizeCommandTest, AnOutputThatFailsIsAnError) {
  arguments_.text = "a";
  std::istringstream in;
  out_.setstate(std::ios::badbit);
  EXPECT_EQ(run_tokenize(arguments_, in, out_, err_), 1);
  EXPECT_THAT(err_.str(), HasSubstr("could not write"));
}

}  // namespace
}  // namespace terrace::inference
