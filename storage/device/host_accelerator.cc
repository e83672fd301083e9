#include "storage/device/host_accelerator.h"

#include <utility>

#include "core/available_memory.h"
#include "core/checksum.h"
#include "storage/arena/memory_file.h"

namespace terrace::storage {

HostAccelerator::HostAccelerator(std::size_t threads) {
  for (std::size_t i = 0; i < (threads ? threads : 1); ++i)
    threads_.emplace_back([this] { work(); });
}

HostAccelerator::~HostAccelerator() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
  }
  work_to_do_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<std::uint64_t> HostAccelerator::available_bytes() const { return available_memory_bytes(); }

Result<std::unique_ptr<DeviceMemory>> HostAccelerator::allocate(std::size_t bytes) {
  auto memory = MemoryFile::create("terrace-device", bytes, MemoryFile::Clients::read_write);
  if (!memory) return error(memory.error().with_context("device arena"));
  return std::unique_ptr<DeviceMemory>(std::move(*memory));
}

void HostAccelerator::copy_async(std::uint64_t ticket, std::byte* to,
                                 std::span<const std::byte> from) {
  start({ticket, to, from});
}

void HostAccelerator::checksum_async(std::uint64_t ticket, std::span<const std::byte> from) {
  start({ticket, nullptr, from});
}

void HostAccelerator::start(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
  }
  work_to_do_.notify_one();
}

void HostAccelerator::take_completions(std::vector<CopyCompletion>& out) {
  const std::lock_guard lock(mutex_);
  out.insert(out.end(), std::make_move_iterator(completions_.begin()),
             std::make_move_iterator(completions_.end()));
  completions_.clear();
}

void HostAccelerator::set_notify(std::function<void()> notify) {
  const std::lock_guard lock(notify_mutex_);
  notify_ = std::move(notify);
}

void HostAccelerator::synchronize() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return jobs_.empty() && running_ == 0; });
}

void HostAccelerator::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_to_do_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    const Job job = jobs_.front();
    jobs_.pop_front();
    ++running_;
    lock.unlock();
    const std::uint64_t checksum =
        job.to ? copy_with_checksum(job.to, job.from) : payload_checksum(job.from);
    lock.lock();
    // Whoever has been told of one and has not taken it yet finds this one beside it.
    const bool first = completions_.empty();
    completions_.push_back({job.ticket, Status(), checksum});
    lock.unlock();
    if (first) {
      const std::lock_guard notify_lock(notify_mutex_);
      if (notify_) notify_();
    }
    lock.lock();
    // Only now: who synchronizes may destroy what the notification touches.
    --running_;
    if (jobs_.empty() && running_ == 0) idle_.notify_all();
  }
}

}  // namespace terrace::storage
