// A CUDA device: memory that is exported to the workers as a descriptor, and copies over streams of
// its own, with the checksum taken on the device where the kernel loads.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/cuda/device.h"
#include "storage/device/accelerator.h"
#include "storage/device/cuda/copy_lane.h"

namespace terrace::storage {

class CudaAccelerator final : public Accelerator {
 public:
  // Threads, each with a stream, for copies to the device and checks, and as many for copies from
  // it: one waits for its batch while the other starts the next, and a device copies both ways at
  // once.
  static constexpr std::size_t lanes_per_direction = 2;

  // Device `ordinal` of `api`, which must outlive it. unavailable, with a reason for people, if
  // there is none or it cannot be used.
  static Result<std::unique_ptr<CudaAccelerator>> open(
      const cuda::DriverApi& api, int ordinal, const KernelImage& image = checksum_kernel_image());
  // Finishes what is under way, forgets what is not.
  ~CudaAccelerator() override;

  std::string name() const override { return device_->name(); }
  bool host_accessible() const override { return false; }
  std::string device_uuid() const override;
  Result<std::uint64_t> available_bytes() const override { return device_->free_bytes(); }
  // ok if the device takes the checksums; else why the CPU does.
  const Status& kernel_status() const { return kernel_status_; }

  Result<std::unique_ptr<DeviceMemory>> allocate(std::size_t bytes) override;
  Status register_host_memory(std::span<std::byte> memory) override;
  void unregister_host_memory(std::span<std::byte> memory) override;
  void copy_async(std::uint64_t ticket, std::byte* to, std::span<const std::byte> from) override;
  void checksum_async(std::uint64_t ticket, std::span<const std::byte> from) override;
  void take_completions(std::vector<CopyCompletion>& out) override { completions_.take(out); }
  void set_notify(std::function<void()> notify) override {
    completions_.set_notify(std::move(notify));
  }
  void synchronize() override;

 private:
  explicit CudaAccelerator(std::unique_ptr<cuda::Device> device) : device_(std::move(device)) {}
  Status start_lanes();
  void work(CopyLane& lane, JobQueue& queue);

  std::unique_ptr<cuda::Device> device_;
  Status kernel_status_;
  std::unique_ptr<DeviceChecksum> checksum_;
  DeviceRanges ranges_;
  CompletionBox completions_;
  JobQueue to_device_, from_device_;
  std::vector<std::unique_ptr<CopyLane>> lanes_;
  std::vector<std::thread> threads_;
};

}  // namespace terrace::storage
