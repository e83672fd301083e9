#include "inference/worker/logits_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/inference/model/golden.h"
#include "tests/inference/model/model_file.h"
#include "tests/inference/model/reference_llama.h"
#include "tests/support/temp_dir.h"

namespace terrace::inference {
namespace {

using testing::HasSubstr;

struct Outcome {
  int status;
  std::string out, err;
};

Outcome run(const LogitsArguments& arguments, const std::string& input = "") {
  std::istringstream in(input);
  std::ostringstream out, err;
  const int status = run_logits(arguments, in, out, err);
  return {status, out.str(), err.str()};
}

class LogitsCommand : public testing::Test {
 protected:
  LogitsCommand() : file_(ModelFile().open(directory_.file("model.gguf"))) {}

  LogitsArguments arguments(const std::string& tokens) const {
    return {.model = file_->path(),
            .tokens = tokens,
            .options = {.compute = Compute::f32, .kv = KvDtype::f32, .threads = 1}};
  }

  test_support::TempDir directory_;
  std::unique_ptr<gguf::File> file_;
};

TEST_F(LogitsCommand, PrintsTheHighestAndTheMoments) {
  auto arguments = this->arguments("1,2,3");
  arguments.top = 5;
  const Outcome outcome = run(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json.at("top").size(), 5u);

  const auto expected = ReferenceLlama(*file_).logits(std::vector<Token>{1, 2, 3}).back();
  double mean = 0;
  for (const double logit : expected) mean += logit / static_cast<double>(expected.size());
  EXPECT_NEAR(json.at("mean").get<double>(), mean, 1e-4);
  double previous = HUGE_VAL;
  for (const auto& entry : json.at("top")) {
    const auto logit = entry.at(1).get<double>();
    EXPECT_NEAR(logit, expected.at(entry.at(0).get<std::size_t>()), 1e-3);
    EXPECT_LE(logit, previous);
    previous = logit;
  }
  EXPECT_NEAR(json.at("top").at(0).at(1).get<double>(),
              *std::max_element(expected.begin(), expected.end()), 1e-3);
}

TEST_F(LogitsCommand, ReadsTokensInAnyForm) {
  const std::string expected = run(arguments("1,2,3")).out;
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(run(arguments("-"), "1 2\n3\n").out, expected);
  EXPECT_EQ(run(arguments("-"), " [1, 2,\t3]\n").out, expected);
  EXPECT_NE(run(arguments("1,2,4")).out, expected);
}

TEST_F(LogitsCommand, SaysInOneLineWhatIsWrong) {
  const auto expect_failure = [](const Outcome& outcome, const std::string& part) {
    EXPECT_NE(outcome.status, 0);
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(part));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1);
  };
  expect_failure(run(arguments("")), "no tokens");
  expect_failure(run(arguments("-"), "[]"), "no tokens");
  expect_failure(run(arguments("1,two")), "\"two\" is no token id");
  expect_failure(run(arguments("99999999999")), "is no token id");
  expect_failure(run(arguments("1,77")), "outside the vocabulary");
  expect_failure(run(arguments("-1")), "outside the vocabulary");
  std::string long_prompt;
  for (int i = 0; i < 513; ++i) long_prompt += "1 ";
  expect_failure(run(arguments("-"), long_prompt), "context of 512");
  auto absent = arguments("1");
  absent.model = directory_.file("absent.gguf");
  expect_failure(run(absent), "absent.gguf");
}

TEST_F(LogitsCommand, AVocabularyWithoutWeightsIsAClearError) {
  const std::string path = golden_path("vocab/ggml-vocab-llama-bpe.gguf");
  if (!golden_json("tiny/logits.json")) GTEST_SKIP() << "no golden files beside the checkout";
  auto arguments = this->arguments("1");
  arguments.model = path;
  const Outcome outcome = run(arguments);
  EXPECT_NE(outcome.status, 0);
  EXPECT_THAT(outcome.err, HasSubstr("no weights (only a vocabulary)"));
}

}  // namespace
}  // namespace terrace::inference
