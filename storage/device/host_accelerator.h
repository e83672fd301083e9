// The accelerator of a machine without one: its memory is a memory file that workers map
// read-write, and the CPU copies, on threads of its own so that the deciding thread never does.
#pragma once

#include <thread>
#include <vector>

#include "storage/device/accelerator.h"
#include "storage/device/job_queue.h"

namespace terrace::storage {

class HostAccelerator final : public Accelerator {
 public:
  // Two threads hide each other's page faults and cache misses; more would take cores from workers.
  static constexpr std::size_t default_threads = 2;

  explicit HostAccelerator(std::size_t threads = default_threads);
  // Finishes what is under way, forgets what is not.
  ~HostAccelerator() override;

  std::string name() const override { return "emulated"; }
  Result<std::uint64_t> available_bytes() const override;
  Result<std::unique_ptr<DeviceMemory>> allocate(std::size_t bytes) override;
  void copy_async(std::uint64_t ticket, std::byte* to, std::span<const std::byte> from) override;
  void checksum_async(std::uint64_t ticket, std::span<const std::byte> from) override;
  void take_completions(std::vector<CopyCompletion>& out) override;
  void set_notify(std::function<void()> notify) override;
  void synchronize() override;

 private:
  void work();

  JobQueue jobs_;
  CompletionBox completions_;
  std::vector<std::thread> threads_;
};

}  // namespace terrace::storage
