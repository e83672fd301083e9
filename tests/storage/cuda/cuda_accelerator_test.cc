// The CUDA accelerator over a stand-in for the driver.
#include "storage/device/cuda/cuda_accelerator.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/bytes.h"
#include "core/cuda/shared_device_memory.h"
#include "tests/storage/cuda/accelerator_check.h"
#include "tests/storage/cuda/fake_cuda.h"

namespace terrace::storage {
namespace {

using ::testing::HasSubstr;
namespace fake = cuda::fake;

// Loads in the stand-in whatever it is.
constexpr char some_image[] = "image";
constexpr KernelImage kernel{some_image, sizeof some_image};

class CudaAcceleratorTest : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override { EXPECT_EQ(fake::live_objects(), 0u); }

  std::unique_ptr<CudaAccelerator> open(const KernelImage& image = kernel) {
    auto accelerator = CudaAccelerator::open(api_, 0, image);
    EXPECT_TRUE(accelerator) << accelerator.error().to_string();
    return accelerator ? std::move(*accelerator) : nullptr;
  }

  const cuda::DriverApi api_ = fake::api();
};

TEST_F(CudaAcceleratorTest, CopiesEveryWayAndTakesChecksumsOnTheDevice) {
  const auto accelerator = open();
  EXPECT_EQ(accelerator->name(), "cuda:0 (stand-in)");
  EXPECT_EQ(accelerator->device_uuid(), "42424242424242424242424242424242");
  EXPECT_TRUE(accelerator->kernel_status().ok());
  auto memory = accelerator->allocate(16 * mib);
  ASSERT_TRUE(memory) << memory.error().to_string();
  EXPECT_FALSE((*memory)->host_accessible());
  const Status status = check_accelerator(*accelerator, **memory);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_GT(fake::kernel_launches(), 0u);
}

TEST_F(CudaAcceleratorTest, WithoutAKernelTheCpuTakesTheChecksums) {
  fake::reset({.kernels_load = false});
  for (const KernelImage& image : {KernelImage{}, kernel}) {
    const auto accelerator = open(image);
    EXPECT_FALSE(accelerator->kernel_status().ok());
    auto memory = accelerator->allocate(16 * mib);
    ASSERT_TRUE(memory);
    const Status status = check_accelerator(*accelerator, **memory);
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  EXPECT_EQ(fake::kernel_launches(), 0u);
}

TEST_F(CudaAcceleratorTest, ACheckSeesWhatIsInTheDevicesMemory) {
  for (const KernelImage& image : {kernel, KernelImage{}}) {
    const auto accelerator = open(image);
    auto memory = accelerator->allocate(2 * mib);
    ASSERT_TRUE(memory);
    CompletionWaiter waiter(*accelerator);
    auto bytes = random_bytes(64 << 10, 1);
    const std::span<std::byte> there((*memory)->data(), bytes.size());
    accelerator->copy_async(1, there.data(), bytes);
    EXPECT_EQ(waiter.wait(1)[1].checksum, payload_checksum(bytes));
    fake::behind(reinterpret_cast<cuda::DeviceAddress>(there.data()))[40'000] ^= std::byte{1};
    bytes[40'000] ^= std::byte{1};
    accelerator->checksum_async(2, there);
    EXPECT_EQ(waiter.wait(1)[2].checksum, payload_checksum(bytes));
  }
}

TEST_F(CudaAcceleratorTest, MemoryIsACapInWholePiecesAndIsShared) {
  const auto accelerator = open();
  const auto available = accelerator->available_bytes();
  ASSERT_TRUE(available);
  auto memory = accelerator->allocate(5 * mib);
  ASSERT_TRUE(memory);
  EXPECT_EQ((*memory)->size(), 4 * mib);
  EXPECT_EQ(accelerator->allocate(1 * mib).error().code(), StatusCode::invalid_argument);
  EXPECT_EQ(accelerator->allocate(2 * gib).error().code(), StatusCode::no_space);
  EXPECT_EQ(*accelerator->available_bytes(), *available - 4 * mib);
  EXPECT_NE(::fcntl((*memory)->exported_fd(), F_GETFD) & FD_CLOEXEC, 0);

  // As a worker does.
  auto device = cuda::Device::open(api_, 0);
  ASSERT_TRUE(device);
  auto imported =
      cuda::SharedDeviceMemory::import(**device, (*memory)->exported_fd(), (*memory)->size());
  ASSERT_TRUE(imported) << imported.error().to_string();
  CompletionWaiter waiter(*accelerator);
  const auto bytes = random_bytes(4096, 2);
  accelerator->copy_async(1, (*memory)->data() + 4096, bytes);
  waiter.wait(1);
  EXPECT_TRUE(std::ranges::equal(bytes, std::span(fake::behind(imported->address()) + 4096, 4096)));
  EXPECT_FALSE(
      cuda::SharedDeviceMemory::import(**device, (*memory)->exported_fd(), (*memory)->size() * 2));
}

TEST_F(CudaAcceleratorTest, HostMemoryIsRegisteredUntilItIsTakenBack) {
  const auto accelerator = open();
  std::vector<std::byte> memory(8192);
  ASSERT_TRUE(accelerator->register_host_memory(memory).ok());
  EXPECT_EQ(fake::registered_bytes(), 8192u);
  EXPECT_FALSE(accelerator->register_host_memory(memory).ok());
  accelerator->unregister_host_memory(memory);
  EXPECT_EQ(fake::registered_bytes(), 0u);
  accelerator->unregister_host_memory(memory);
}

TEST_F(CudaAcceleratorTest, SaysWhyADeviceCannotBeUsed) {
  EXPECT_THAT(CudaAccelerator::open(api_, 3).error().to_string(),
              HasSubstr("unavailable: there is no device cuda:3"));
  fake::reset({.can_share_memory = false});
  EXPECT_THAT(CudaAccelerator::open(api_, 0).error().to_string(), HasSubstr("cannot share memory"));
}

TEST_F(CudaAcceleratorTest, EveryCallMayFailAndNothingIsLeftBehind) {
  std::int64_t nth = 0;
  for (;; ++nth) {
    fake::reset();
    fake::fail_call(nth);
    {
      auto accelerator = CudaAccelerator::open(api_, 0, kernel);
      if (accelerator) {
        std::vector<std::byte> host(4096);
        const Status registered = (*accelerator)->register_host_memory(host);
        auto memory = (*accelerator)->allocate(16 * mib);
        if (memory) {
          const Status status =
              check_accelerator(**accelerator, **memory, {1, 240, 4096, 16392, 80 << 10});
          // Wrong bytes and wrong checksums would be internal.
          EXPECT_NE(status.code(), StatusCode::internal) << nth << ": " << status.to_string();
        } else {
          EXPECT_NE(memory.error().message(), "");
        }
        if (registered.ok()) (*accelerator)->unregister_host_memory(host);
      } else {
        EXPECT_EQ(accelerator.error().code(), StatusCode::unavailable);
      }
    }
    ASSERT_EQ(fake::live_objects(), 0u) << nth;
    if (!fake::failed()) break;
  }
  EXPECT_GT(nth, 60);
}

TEST_F(CudaAcceleratorTest, ADeviceThatFailsDuringACopyIsAnErrorOfThatCopyAndOfLaterOnes) {
  const auto accelerator = open();
  auto memory = accelerator->allocate(2 * mib);
  ASSERT_TRUE(memory);
  CompletionWaiter waiter(*accelerator);
  const auto bytes = random_bytes(4096, 3);
  fake::break_device_at_copy(0);
  for (std::uint64_t ticket = 1; ticket <= 2; ++ticket) {
    accelerator->copy_async(ticket, (*memory)->data(), bytes);
    const CopyCompletion done = waiter.wait(1)[ticket];
    EXPECT_EQ(done.status.code(), StatusCode::io_error);
    EXPECT_THAT(done.status.message(), HasSubstr("CUDA_ERROR_LAUNCH_FAILED"));
  }
}

TEST_F(CudaAcceleratorTest, SynchronizeWaitsForEverythingAndWorkMayBeLeftWaiting) {
  auto accelerator = open();
  auto memory = accelerator->allocate(4 * mib);
  ASSERT_TRUE(memory);
  const auto bytes = random_bytes(1 << 20, 4);
  for (std::uint64_t i = 0; i < 20; ++i) accelerator->copy_async(i, (*memory)->data(), bytes);
  accelerator->synchronize();
  std::vector<CopyCompletion> done;
  accelerator->take_completions(done);
  EXPECT_EQ(done.size(), 20u);
  for (std::uint64_t i = 0; i < 100; ++i) accelerator->copy_async(i, (*memory)->data(), bytes);
  // The threads before the memory, as the contract wants it.
  accelerator->synchronize();
  memory = std::unique_ptr<DeviceMemory>();
  accelerator.reset();
}

}  // namespace
}  // namespace terrace::storage
