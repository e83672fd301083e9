// Whose memory the device arena is: terraced with and without a CUDA driver. The driver is a
// stand-in that the program finds as it would find the real one.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "client/client.h"
#include "tests/integration/programs.h"

namespace terrace::integration {
namespace {

class DeviceTest : public ::testing::Test {
 protected:
  static bool machine_has_a_driver() {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library) ::dlclose(library);
    return library != nullptr;
  }

  void start(const std::string& accelerator, std::map<std::string, std::string> environment = {}) {
    daemon_ = std::make_unique<test_support::DaemonProcess>(test_support::DaemonOptions{
        program("terraced"), directory_.path(),
        RunningDaemon::with_small_arenas(
            {"device.accelerator=" + accelerator, "host.capacity=4MiB"}),
        std::move(environment)});
    // Whether it starts shows in its log.
    (void)daemon_->start();
  }
  // Without becoming ready, and with this line.
  void expect_refused(const std::string& line) {
    // It may have listened for a moment.
    EXPECT_TRUE(test_support::wait_until([&] { return said(line); })) << daemon_->log();
    EXPECT_EQ(daemon_->stop(), 1);
    EXPECT_FALSE(said("ready:"));
  }
  static std::map<std::string, std::string> with_stand_in(int devices = 1) {
    return {{"LD_LIBRARY_PATH", TERRACE_FAKE_CUDA_DIR},
            {"TERRACE_FAKE_CUDA_DEVICES", std::to_string(devices)}};
  }
  bool said(const std::string& what) const {
    return daemon_->log().find(what) != std::string::npos;
  }
  void expect_ready(const std::string& line) {
    EXPECT_TRUE(test_support::wait_until([&] { return said("ready:"); })) << daemon_->log();
    EXPECT_TRUE(said(line)) << daemon_->log();
  }

  TempDir directory_;
  std::unique_ptr<test_support::DaemonProcess> daemon_;
};

TEST_F(DeviceTest, WithoutADriverAutoIsEmulatedAndSaysWhy) {
  if (machine_has_a_driver()) GTEST_SKIP() << "there is a CUDA driver here";
  start("auto");
  expect_ready("device: 16 MiB of emulated");
  EXPECT_TRUE(said("no GPU is used: there is no CUDA driver on this machine")) << daemon_->log();
}

TEST_F(DeviceTest, WithoutADriverAGpuThatWasAskedForIsOneClearLine) {
  if (machine_has_a_driver()) GTEST_SKIP() << "there is a CUDA driver here";
  start("cuda:0");
  expect_refused("terraced: device.accelerator = \"cuda:0\": there is no CUDA driver");
}

TEST_F(DeviceTest, WithADriverTheArenaIsTheGpus) {
  for (const char* accelerator : {"cuda:0", "auto"}) {
    start(accelerator, with_stand_in());
    expect_ready("device: 16 MiB of cuda:0 (stand-in)");
    // A worker that cannot compute there says so, and goes on without the cache.
    client::ClientOptions options;
    options.socket_path = daemon_->socket_path();
    const auto client = client::Client::start(std::move(options));
    const auto soon = client::Deadline::clock::now() + std::chrono::seconds(60);
    const Status status = client->wait_first_attempt(soon);
    EXPECT_EQ(status.code(), StatusCode::unavailable);
    EXPECT_NE(status.message().find("memory of a GPU"), std::string::npos) << status.message();
    EXPECT_EQ(daemon_->stop(), 0) << daemon_->log();
  }
}

TEST_F(DeviceTest, ADriverWithoutDevicesIsAsGoodAsNone) {
  start("auto", with_stand_in(0));
  expect_ready("no GPU is used: the CUDA driver does not start");
  start("cuda:0", with_stand_in(0));
  expect_refused("CUDA_ERROR_NO_DEVICE");
}

TEST_F(DeviceTest, AGpuThatIsNotThereIsOneClearLine) {
  start("cuda:7", with_stand_in(2));
  expect_refused("there is no device cuda:7: the CUDA driver shows 2");
}

// What tests/gpu/check.sh runs on a real GPU, so that it runs there.
TEST_F(DeviceTest, TheGpuCheckRunsOverTheStandIn) {
  const auto result =
      run_program("gpu_storage_check", {"--quick"}, {.input = "", .environment = with_stand_in()});
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto report = nlohmann::json::parse(result.output);
  EXPECT_EQ(report.at("device"), "cuda:0 (stand-in)");
  EXPECT_EQ(report.at("block_reads").size(), 5u);
}

TEST_F(DeviceTest, TheGpuCheckIsSkippedWithoutAGpu) {
  if (machine_has_a_driver()) GTEST_SKIP() << "there is a CUDA driver here";
  const auto result = run_program("gpu_storage_check", {});
  EXPECT_EQ(result.status, 77);
  EXPECT_NE(result.errors.find("there is no CUDA driver"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace terrace::integration
