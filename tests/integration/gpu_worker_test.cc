// terrace-worker on a GPU beside terraced, whose arena is that GPU's memory: two processes over the
// stand-ins for the driver and for cuBLASLt, which they find as they would find the real ones.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/integration/programs.h"
#include "tests/integration/serve_fixture.h"
#include "tests/support/tiny_model.h"

namespace terrace::integration {
namespace {

class GpuWorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!TERRACE_HAS_KERNELS) GTEST_SKIP() << "built without the CUDA toolkit";
    test_support::TinyModelOptions options;
    options.context_length = 512;
    ASSERT_TRUE(test_support::write_tiny_model(options, model_).ok());
  }

  static std::map<std::string, std::string> with_stand_ins(int devices = 1) {
    return {{"LD_LIBRARY_PATH", TERRACE_FAKE_CUDA_DIR},
            {"TERRACE_FAKE_CUDA_DEVICES", std::to_string(devices)}};
  }
  ProcessResult generate(std::vector<std::string> more, int devices = 1) const {
    std::string prompt;
    for (int i = 0; i < 12; ++i) prompt += "word " + std::to_string(i) + " ";
    std::vector<std::string> arguments = {"generate", "--model",      model_, "--raw", "--prompt",
                                          prompt,     "--max-tokens", "8",    "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("terrace-worker", std::move(arguments),
                       {.input = "", .environment = with_stand_ins(devices)});
  }

  TempDir directory_;
  const std::string model_ = directory_.file("tiny.gguf");
};

TEST_F(GpuWorkerTest, ComputesInTheDaemonsMemoryAndFindsThereWhatAnotherComputed) {
  test_support::DaemonProcess daemon(
      {program("terraced"), directory_.path(),
       RunningDaemon::with_small_arenas({"device.accelerator=cuda:0", "host.capacity=4MiB"}),
       with_stand_ins()});
  ASSERT_TRUE(daemon.start().ok()) << daemon.log();
  const auto answer = [&](std::vector<std::string> arguments) {
    const auto result = generate(std::move(arguments));
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.errors, "");
    return nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  };
  const auto first = answer({"--backend", "cuda", "--socket", daemon.socket_path()});
  EXPECT_EQ(first.at("cached_tokens"), 0);
  // Another process, which reads in place what the first one sealed. The daemon has checked it.
  const auto second = answer({"--backend", "auto", "--socket", daemon.socket_path()});
  EXPECT_GE(second.at("cached_by_tier").at("device"), 32);
  EXPECT_EQ(second.at("token_ids"), first.at("token_ids"));
  EXPECT_EQ(answer({"--backend", "cuda", "--no-cache"}).at("token_ids"), first.at("token_ids"));

  // Without one of them in the other's memory there is no cache, and a reason.
  const auto on_cpu = generate({"--socket", daemon.socket_path()});
  EXPECT_EQ(on_cpu.status, 0);
  EXPECT_NE(on_cpu.errors.find("the memory of a GPU"), std::string::npos) << on_cpu.errors;
  EXPECT_EQ(daemon.stop(), 0) << daemon.log();
}

TEST_F(GpuWorkerTest, BesideAnArenaInTheMachinesMemoryThereIsNoCache) {
  RunningDaemon daemon;
  ASSERT_TRUE(daemon.start().ok());
  const auto result = generate({"--backend", "cuda", "--socket", daemon.socket_path()});
  EXPECT_EQ(result.status, 0);
  EXPECT_NE(result.errors.find("computes on a GPU"), std::string::npos) << result.errors;
}

TEST_F(GpuWorkerTest, WithoutAGpuAutoComputesOnTheCpuAndCudaIsOneLine) {
  const auto automatic = generate({"--backend", "auto", "--no-cache"}, 0);
  EXPECT_EQ(automatic.status, 0);
  EXPECT_NE(automatic.errors.find("no GPU is used: "), std::string::npos) << automatic.errors;
  const auto refused = generate({"--backend", "cuda", "--no-cache"}, 0);
  EXPECT_EQ(refused.status, 1);
  expect_one_line(refused.errors);
  EXPECT_NE(refused.errors.find("CUDA_ERROR_NO_DEVICE"), std::string::npos) << refused.errors;
}

TEST_F(GpuWorkerTest, ServesManyAtOnceAsEachAloneOutOfTheGpusMemory) {
  test_support::DaemonProcess daemon(
      {program("terraced"), directory_.path(),
       RunningDaemon::with_small_arenas({"device.accelerator=cuda:0", "host.capacity=4MiB"}),
       with_stand_ins()});
  ASSERT_TRUE(daemon.start().ok()) << daemon.log();
  inference::WorkerServer server(model_, {"--backend", "cuda", "--socket", daemon.socket_path()},
                                 with_stand_ins());
  std::vector<nlohmann::json> bodies;
  for (int i = 0; i < 4; ++i) {
    auto prompt = nlohmann::json::array();
    // Two spans of attention and a block that goes on differently.
    for (int token = 0; token < 140 + 3 * i; ++token)
      prompt.push_back((token < 133 ? token * 7 : token * 11 + i) % 300);
    bodies.push_back(
        {{"prompt", prompt}, {"max_tokens", 6}, {"ignore_eos", true}, {"return_token_ids", true}});
  }
  const auto ids_of = [](const inference::ApiAnswer& answer) {
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.status == 200 ? answer.json().at("choices").at(0).at("token_ids")
                                : nlohmann::json();
  };
  std::vector<nlohmann::json> alone, together;
  for (const auto& body : bodies) alone.push_back(ids_of(server.post("/v1/completions", body)));
  std::vector<UniqueFd> open;
  for (const auto& body : bodies) open.push_back(server.begin("/v1/completions", body));
  for (const UniqueFd& fd : open) together.push_back(ids_of(inference::read_answer(fd)));
  EXPECT_EQ(together, alone);
  const auto again = server.post("/v1/completions", bodies[3]).json();
  EXPECT_GE(again.at("usage").at("prompt_tokens_details").at("cached_tokens"), 128);
  EXPECT_EQ(server.stop(), 0) << server.process().errors();
  EXPECT_NE(server.process().errors().find("of the memory of cuda:0 (stand-in)"),
            std::string::npos);
}

// What tests/gpu/check.sh inference runs on a real GPU, so that it runs there.
TEST_F(GpuWorkerTest, TheInferenceCheckRunsOverTheStandIns) {
  const auto result = run_program("gpu_inference_check", {"--quick"},
                                  {.input = "", .environment = with_stand_ins()});
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto report = nlohmann::json::parse(result.output);
  EXPECT_EQ(report.at("device"), "cuda:0 (stand-in)");
  EXPECT_EQ(report.at("sharing_changes_no_bit"), true);
  EXPECT_LT(report.at("difference"), 0.03);
}

}  // namespace
}  // namespace terrace::integration
