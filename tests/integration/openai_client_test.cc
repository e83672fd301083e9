// The real `openai` package for Python before the real server. deploy/test.sh puts the package into
// an environment of its own; where there is none, this is skipped.
#include <filesystem>

#include "tests/integration/serve_fixture.h"
#include "tests/support/daemon_process.h"

namespace terrace::inference {
namespace {

std::string cache_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) return cache;
  const char* home = std::getenv("HOME");
  return std::string(home ? home : "/root") + "/.cache";
}

std::string openai_python() { return cache_directory() + "/terrace/openai-client/bin/python"; }

std::string demo_model() {
  if (const char* path = std::getenv("TERRACE_DEMO_MODEL")) return path;
  return cache_directory() + "/terrace/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

void expect_client_is_content(const WorkerServer& server, const std::string& what) {
  const auto result = test_support::run_process(
      {openai_python(), TERRACE_OPENAI_CHECK, std::to_string(server.port()), what}, {},
      std::chrono::seconds(120));
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
}

class OpenAiClient : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(openai_python()))
      GTEST_SKIP() << "no openai package in " << openai_python();
  }
  test_support::TempDir directory_;
};

TEST_F(OpenAiClient, WorksUnchanged) {
  ASSERT_TRUE(test_support::write_tiny_model({}, directory_.file("tiny.gguf")).ok());
  const WorkerServer server(directory_.file("tiny.gguf"), {"--no-cache"});
  expect_client_is_content(server, "api");
}

using DemoModelServer = OpenAiClient;

TEST_F(DemoModelServer, TheSecondTurnOfAChatHitsTheAnswerToTheFirst) {
  if (!std::filesystem::exists(demo_model())) GTEST_SKIP() << "no demo model";
  test_support::DaemonProcess daemon(
      {std::string(TERRACE_BIN_DIR) + "/terraced",
       directory_.path(),
       {"device.capacity=\"256MiB\"", "disk.capacity=\"64MiB\"", "http.listen=\"off\""}});
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  const WorkerServer server(demo_model(), {"--socket", daemon.socket_path()});
  expect_client_is_content(server, "two_turns");
}

}  // namespace
}  // namespace terrace::inference
