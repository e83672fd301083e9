// terrace-worker as its users call it: what it prints, and one clear line where it cannot.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace terrace::inference {
namespace {

using nlohmann::json;
using test_support::ProcessResult;

constexpr std::chrono::seconds patience{60};

class WorkerCli : public ::testing::Test {
 protected:
  WorkerCli() {
    test_support::TinyModelOptions options;
    options.context_length = 512;
    EXPECT_TRUE(test_support::write_tiny_model(options, model_).ok());
  }

  static ProcessResult worker(std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), std::string(TERRACE_BIN_DIR) + "/terrace-worker");
    return test_support::run_process(arguments, {.input = input, .environment = {}}, patience);
  }

  // The first `bytes` bytes of the model.
  std::string truncated_model(std::size_t bytes) const {
    std::ifstream in(model_, std::ios::binary);
    std::string content(bytes, '\0');
    in.read(content.data(), static_cast<std::streamsize>(bytes));
    return write("truncated.gguf", content);
  }

  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(directory_.file(name), std::ios::binary) << content;
    return directory_.file(name);
  }

  static void expect_one_line_failure(const ProcessResult& result, const std::string& about) {
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.output, "");
    EXPECT_EQ(result.errors.rfind("terrace-worker ", 0), 0u) << result.errors;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(about), std::string::npos) << result.errors;
  }

  test_support::TempDir directory_;
  const std::string model_ = directory_.file("tiny.gguf");
};

TEST_F(WorkerCli, GeneratePrintsOneJsonObjectWithEveryField) {
  const auto result = worker({"generate", "--model", model_, "--prompt", "hello there",
                              "--max-tokens", "5", "--no-cache", "--json"});
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.errors, "");
  const json answer = json::parse(result.output);
  EXPECT_TRUE(answer.at("text").is_string());
  EXPECT_LE(answer.at("token_ids").size(), 5u);
  EXPECT_GT(answer.at("prompt_tokens").get<int>(), 0);
  EXPECT_EQ(answer.at("cached_tokens"), 0);
  EXPECT_EQ(answer.at("cached_by_tier"),
            json::parse(R"({"device":0,"host":0,"disk":0,"redis":0})"));
  EXPECT_GT(answer.at("ttft_ms").get<double>(), 0);
  EXPECT_TRUE(answer.at("decode_tokens_per_s").is_number());
  const std::string reason = answer.at("finish_reason");
  EXPECT_TRUE(reason == "stop" || reason == "length") << reason;
}

TEST_F(WorkerCli, GreedyAnswersRepeatAndSeedsDecideSampledOnes) {
  const auto ids = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"generate",   "--model", model_,         "--prompt",
                                          "hello",      "--raw",   "--max-tokens", "16",
                                          "--no-cache", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = worker(arguments);
    EXPECT_EQ(result.status, 0) << result.errors;
    return json::parse(result.output).at("token_ids");
  };
  EXPECT_EQ(ids({}), ids({}));
  EXPECT_EQ(ids({}), ids({"--temperature", "5", "--top-k", "1"}));
  EXPECT_EQ(ids({"--temperature", "50", "--seed", "1"}),
            ids({"--temperature", "50", "--seed", "1"}));
  EXPECT_NE(ids({"--temperature", "50", "--seed", "1"}),
            ids({"--temperature", "50", "--seed", "2"}));
}

TEST_F(WorkerCli, PromptsComeFromFilesAndStandardInputToo) {
  const std::vector<std::string> common = {"--model", model_,       "--max-tokens",
                                           "4",       "--no-cache", "--json"};
  const auto run = [&](std::vector<std::string> more, const std::string& input = "") {
    more.insert(more.begin(), "generate");
    more.insert(more.end(), common.begin(), common.end());
    const auto result = worker(more, input);
    EXPECT_EQ(result.status, 0) << result.errors;
    return json::parse(result.output).at("token_ids");
  };
  const auto expected = run({"--prompt", "a question", "--system", "be brief"});
  EXPECT_EQ(run({"--prompt-file", write("prompt", "a question"), "--system-file",
                 write("system", "be brief")}),
            expected);
  EXPECT_EQ(run({"--prompt-file", "-", "--system", "be brief"}, "a question"), expected);
}

TEST_F(WorkerCli, TextIsPrintedAsItIsWithoutJson) {
  const std::vector<std::string> common = {"generate", "--model",      model_, "--prompt",
                                           "hello",    "--max-tokens", "8",    "--no-cache"};
  auto with_json = common;
  with_json.push_back("--json");
  const auto text = worker(common), object = worker(with_json);
  ASSERT_EQ(text.status, 0) << text.errors;
  // A random model writes any bytes; JSON has a replacement where they are not UTF-8.
  const std::string expected = json::parse(object.output).at("text");
  if (expected.find("\xEF\xBF\xBD") == std::string::npos) {
    EXPECT_EQ(text.output, expected + "\n");
  }
}

TEST_F(WorkerCli, ASecondProcessHitsWhatTheFirstComputed) {
  test_support::DaemonProcess daemon({std::string(TERRACE_BIN_DIR) + "/terraced",
                                      directory_.path(),
                                      {"device.capacity=\"64MiB\""}});
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  const std::vector<std::string> arguments = {
      "generate", "--model",      model_, "--prompt", std::string(100, 'x'),
      "--raw",    "--max-tokens", "4",    "--socket", daemon.socket_path(),
      "--json"};
  const auto first = worker(arguments), second = worker(arguments);
  ASSERT_EQ(first.status, 0) << first.errors;
  ASSERT_EQ(second.status, 0) << second.errors;
  EXPECT_EQ(json::parse(first.output).at("cached_tokens"), 0);
  const json answer = json::parse(second.output);
  EXPECT_EQ(answer.at("cached_by_tier").at("device"), 96);
  EXPECT_EQ(answer.at("token_ids"), json::parse(first.output).at("token_ids"));
}

// The same words give `terrace why` the tokens that the worker computed.
TEST_F(WorkerCli, WhyFindsWhatGenerateComputedOfAChat) {
  test_support::DaemonProcess daemon({std::string(TERRACE_BIN_DIR) + "/terraced",
                                      directory_.path(),
                                      {"device.capacity=16MiB", "arena.slab=1MiB"}});
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  const std::vector<std::string> words = {"--model",       model_,
                                          "--prompt-file", write("question", std::string(70, 'q')),
                                          "--system-file", write("system", std::string(90, 's'))};
  std::vector<std::string> generate = {"generate",     "--socket", daemon.socket_path(),
                                       "--max-tokens", "2",        "--json"};
  generate.insert(generate.end(), words.begin(), words.end());
  const auto generated = worker(generate);
  ASSERT_EQ(generated.status, 0) << generated.errors;
  const json generation = json::parse(generated.output);
  const auto ask = [&](std::vector<std::string> more) {
    std::vector<std::string> why = {std::string(TERRACE_BIN_DIR) + "/terrace", "--socket",
                                    daemon.socket_path(), "why", "--json"};
    why.insert(why.end(), words.begin(), words.end());
    why.insert(why.end(), more.begin(), more.end());
    return test_support::run_process(why, {}, patience);
  };
  const auto asked = ask({});
  ASSERT_EQ(asked.status, 0) << asked.errors;
  const json why = json::parse(asked.output);
  EXPECT_EQ(why.at("tokens"), generation.at("prompt_tokens"));
  EXPECT_GT(why.at("blocks").size(), 2u);
  EXPECT_EQ(why.at("matched_blocks"), why.at("blocks").size());
  // As it stands it is another prompt, and has no place for a system prompt.
  EXPECT_EQ(ask({"--raw"}).status, 2);

  const std::string manifest = write(
      "manifest", json{{"prompt", std::string(70, 'q')}, {"system", std::string(90, 's')}}.dump());
  const auto warmed = test_support::run_process(
      {std::string(TERRACE_BIN_DIR) + "/terrace", "--socket", daemon.socket_path(), "warm",
       "--manifest", manifest, "--model", model_, "--json"},
      {}, patience);
  ASSERT_EQ(warmed.status, 0) << warmed.errors;
  EXPECT_EQ(json::parse(warmed.output).at("was_there"), why.at("blocks").size());
}

TEST_F(WorkerCli, WithoutADaemonItSaysSoOnceAndAnswers) {
  const auto result = worker({"generate", "--model", model_, "--prompt", "hello", "--max-tokens",
                              "3", "--json", "--socket", directory_.file("nobody.sock")});
  ASSERT_EQ(result.status, 0);
  EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  EXPECT_NE(result.errors.find("no cache"), std::string::npos) << result.errors;
  EXPECT_LE(json::parse(result.output).at("token_ids").size(), 3u);
}

TEST_F(WorkerCli, APromptLongerThanTheContextIsOneClearLine) {
  expect_one_line_failure(worker({"generate", "--model", model_, "--prompt", std::string(600, 'x'),
                                  "--raw", "--no-cache"}),
                          "the prompt has 600 tokens; the model's context holds 512");
}

TEST_F(WorkerCli, FilesThatAreNoModelAreOneClearLine) {
  const auto generate = [](const std::string& path) {
    return worker({"generate", "--model", path, "--prompt", "x", "--no-cache"});
  };
  expect_one_line_failure(generate(directory_.file("absent.gguf")), "absent.gguf");
  expect_one_line_failure(generate(write("text.gguf", "this is not a model at all, only text")),
                          "text.gguf");
  expect_one_line_failure(generate(write("empty.gguf", "")), "empty.gguf");
  expect_one_line_failure(generate(truncated_model(20'000)), "truncated.gguf");
  expect_one_line_failure(generate(truncated_model(100)), "truncated.gguf");
  expect_one_line_failure(generate(directory_.path()), directory_.path());
  expect_one_line_failure(
      worker({"logits", "--model", write("text.gguf", "text"), "--tokens", "1"}), "text.gguf");
  expect_one_line_failure(
      worker({"tokenize", "--model", write("text.gguf", "text"), "--text", "x"}), "text.gguf");
}

TEST_F(WorkerCli, BadInputIsOneLineAlsoWithoutADaemon) {
  expect_one_line_failure(worker({"generate", "--model", write("text.gguf", "text"), "--prompt",
                                  "x", "--socket", directory_.file("nobody.sock")}),
                          "text.gguf");
}

TEST_F(WorkerCli, TextsThatCannotBeReadAreOneClearLine) {
  for (const char* option : {"--prompt-file", "--system-file"}) {
    std::vector<std::string> arguments = {"generate",   "--model", model_,
                                          "--no-cache", option,    directory_.path()};
    if (option == std::string("--system-file"))
      arguments.insert(arguments.end(), {"--prompt", "x"});
    expect_one_line_failure(worker(arguments), directory_.path());
  }
  expect_one_line_failure(
      worker({"tokenize", "--model", model_, "--file", directory_.file("absent")}), "absent");
}

TEST_F(WorkerCli, TokenizeReadsStandardInputWithoutOptions) {
  const auto from_input = worker({"tokenize", "--model", model_}, "hello there");
  ASSERT_EQ(from_input.status, 0) << from_input.errors;
  EXPECT_EQ(from_input.output,
            worker({"tokenize", "--model", model_, "--text", "hello there"}).output);
}

TEST_F(WorkerCli, TokensOutsideTheVocabularyAreOneClearLine) {
  expect_one_line_failure(worker({"logits", "--model", model_, "--tokens", "1,320"}), "320");
  expect_one_line_failure(worker({"logits", "--model", model_, "--tokens", "1,x"}), "x");
}

TEST_F(WorkerCli, AConfigurationFileSetsWhatNoFlagSays) {
  const std::string config =
      write("worker.toml", "model = \"" + model_ + "\"\ncache = false\nmax_tokens = 3\n");
  const auto ids = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"generate", "--config", config,  "--prompt",
                                          "hello",    "--raw",    "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = worker(arguments);
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    return json::parse(result.output).at("token_ids").size();
  };
  EXPECT_EQ(ids({}), 3u);
  EXPECT_EQ(ids({"--max-tokens", "2"}), 2u);
  expect_one_line_failure(
      worker({"generate", "--config", write("bad.toml", "max_tokens = \"x\"\n"), "--prompt", "x"}),
      "bad.toml:1");
}

TEST_F(WorkerCli, WrongOptionsAreOneLineThatNamesThem) {
  const auto expect_usage_error = [](const ProcessResult& result, const std::string& about) {
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(about), std::string::npos) << result.errors;
  };
  expect_usage_error(worker({"generate", "--model", model_, "--prompt", "x", "--tempature", "1"}),
                     "--tempature");
  expect_usage_error(worker({"generate", "--model", model_}), "--prompt");
  expect_usage_error(worker({"generate", "--prompt", "x"}), "--model");
  expect_usage_error(worker({"generate", "--model", model_, "--prompt", "x", "--isa", "mmx"}),
                     "mmx");
  expect_usage_error(worker({"generate", "--model", model_, "--prompt", "x", "--max-tokens", "0"}),
                     "--max-tokens");
  expect_usage_error(worker({}), "subcommand");
  EXPECT_EQ(worker({"--help"}).status, 0);
}

}  // namespace
}  // namespace terrace::inference
