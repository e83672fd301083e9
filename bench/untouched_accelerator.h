// Device memory that nobody reads or writes: for measuring decisions about a million blocks without
// a million slots of memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "storage/device/accelerator.h"

namespace terrace::bench {

// Copies and checks are refused.
class UntouchedAccelerator final : public storage::Accelerator {
 public:
  std::string name() const override { return "untouched"; }
  Result<std::unique_ptr<storage::DeviceMemory>> allocate(std::size_t bytes) override;
  void copy_async(std::uint64_t ticket, std::byte* to, std::span<const std::byte> from) override;
  void checksum_async(std::uint64_t ticket, std::span<const std::byte> from) override;
  void take_completions(std::vector<storage::CopyCompletion>& out) override;
  void set_notify(std::function<void()> /*notify*/) override {}
  void synchronize() override {}

 private:
  std::vector<storage::CopyCompletion> completions_;
};

}  // namespace terrace::bench
