// An accelerator whose copies happen when a test says so, in the order that it says, and fail or go
// wrong when it says. Bytes are read and written at the completion, the latest moment allowed: a
// slot that is used again too early shows as wrong bytes. Its memory may be such that the CPU
// cannot access it, as a GPU's: then the addresses that the cache gets are no memory, and whoever
// touches them dies of it.
#pragma once

#include <sys/mman.h>

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/checksum.h"
#include "storage/arena/memory_file.h"
#include "storage/device/accelerator.h"

namespace terrace::storage {

class ManualAccelerator final : public Accelerator {
 public:
  enum class Fate { good, fails, flips_a_bit };

  std::string name() const override { return "manual"; }
  bool host_accessible() const override { return host_accessible_; }
  // Before the first allocate().
  void set_host_accessible(bool accessible) { host_accessible_ = accessible; }

  Result<std::unique_ptr<DeviceMemory>> allocate(std::size_t bytes) override {
    auto memory = MemoryFile::create("manual-device", bytes, MemoryFile::Clients::read_write);
    if (!memory) return error(memory.error());
    if (host_accessible_) return std::unique_ptr<DeviceMemory>(std::move(*memory));
    return std::make_unique<OutOfReach>(*this, std::move(*memory));
  }
  Status register_host_memory(std::span<std::byte> memory) override {
    registered_bytes_ += memory.size();
    return {};
  }
  void unregister_host_memory(std::span<std::byte> memory) override {
    registered_bytes_ -= memory.size();
  }
  std::size_t registered_bytes() const { return registered_bytes_; }
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
    Job job = jobs_.at(which);
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(which));
    job.to = reach(job.to);
    job.from = {reach(job.from.data()), job.from.size()};
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

  // Addresses without memory, and the memory that stands behind them.
  class OutOfReach final : public DeviceMemory {
   public:
    OutOfReach(ManualAccelerator& accelerator, std::unique_ptr<DeviceMemory> memory)
        : accelerator_(accelerator),
          memory_(std::move(memory)),
          addresses_(static_cast<std::byte*>(
              ::mmap(nullptr, memory_->size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
      accelerator_.out_of_reach_.push_back(this);
    }
    ~OutOfReach() override {
      std::erase(accelerator_.out_of_reach_, this);
      ::munmap(addresses_, memory_->size());
    }
    std::size_t size() const override { return memory_->size(); }
    std::byte* data() const override { return addresses_; }
    bool host_accessible() const override { return false; }
    int exported_fd() const override { return memory_->exported_fd(); }
    std::byte* behind(const std::byte* at) const {
      const bool here = at >= addresses_ && at < addresses_ + memory_->size();
      return here ? memory_->data() + (at - addresses_) : nullptr;
    }

   private:
    ManualAccelerator& accelerator_;
    std::unique_ptr<DeviceMemory> memory_;
    std::byte* addresses_;
  };
  template <typename Byte>
  Byte* reach(Byte* at) const {
    for (const OutOfReach* memory : out_of_reach_)
      if (std::byte* behind = memory->behind(at)) return behind;
    return at;
  }

  bool host_accessible_ = true;
  std::vector<OutOfReach*> out_of_reach_;
  std::size_t registered_bytes_ = 0;
  std::deque<Job> jobs_;
  std::vector<CopyCompletion> completions_;
  std::function<void()> notify_;
  std::size_t copies_ = 0, checks_ = 0;
};

}  // namespace terrace::storage
