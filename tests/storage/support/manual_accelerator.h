// An accelerator whose copies happen when a test says so, in the order that it says, and fail or go
// wrong when it says. Bytes are read and written at the completion, the latest moment allowed: a
// slot that is used again too early shows as wrong bytes.
#pragma once

#include <deque>
#include <functional>

#include "core/checksum.h"
#include "storage/arena/memory_file.h"
#include "storage/device/accelerator.h"

namespace terrace::storage {

class ManualAccelerator final : public Accelerator {
 public:
  enum class Fate { good, fails, flips_a_bit };

  std::string name() const override { return "manual"; }

  Result<std::unique_ptr<DeviceMemory>> allocate(std::size_t bytes) override {
    auto memory = MemoryFile::create("manual-device", bytes, MemoryFile::Clients::read_write);
    if (!memory) return error(memory.error());
    return std::unique_ptr<DeviceMemory>(std::move(*memory));
  }
  void copy_async(std::uint64_t ticket, std::byte* to, std::span<const std::byte> from) override {
    jobs_.push_back({ticket, to, from});
    ++copies_;
  }
  void checksum_async(std::uint64_t ticket, std::span<const std::byte> from) override {
    jobs_.push_back({ticket, nullptr, from});
    ++checks_;
  }
  void take_completions(std::vector<CopyCompletion>& out) override {
    out.insert(out.end(), completions_.begin(), completions_.end());
    completions_.clear();
  }
  void set_notify(std::function<void()> notify) override { notify_ = std::move(notify); }
  void synchronize() override {
    while (!jobs_.empty()) complete(0);
  }

  std::size_t under_way() const { return jobs_.size(); }
  std::size_t copies() const { return copies_; }
  std::size_t checks() const { return checks_; }

  void complete(std::size_t which, Fate fate = Fate::good) {
    const Job job = jobs_.at(which);
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(which));
    CopyCompletion completion{job.ticket, {}, 0};
    if (fate == Fate::fails) {
      completion.status = Status(StatusCode::io_error, "the copy was told to fail");
    } else if (!job.to) {
      completion.checksum = payload_checksum(job.from);
    } else {
      completion.checksum = copy_with_checksum(job.to, job.from);
      if (fate == Fate::flips_a_bit) {
        *job.to ^= std::byte{1};
        completion.checksum = payload_checksum({job.to, job.from.size()});
      }
    }
    completions_.push_back(completion);
    if (notify_) notify_();
  }

 private:
  struct Job {
    std::uint64_t ticket;
    std::byte* to;
    std::span<const std::byte> from;
  };
  std::deque<Job> jobs_;
  std::vector<CopyCompletion> completions_;
  std::function<void()> notify_;
  std::size_t copies_ = 0, checks_ = 0;
};

}  // namespace terrace::storage
