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
  jobs_.stop();
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
  jobs_.push({ticket, to, from});
}

void HostAccelerator::checksum_async(std::uint64_t ticket, std::span<const std::byte> from) {
  jobs_.push({ticket, nullptr, from});
}

void HostAccelerator::take_completions(std::vector<CopyCompletion>& out) { completions_.take(out); }

void HostAccelerator::set_notify(std::function<void()> notify) {
  completions_.set_notify(std::move(notify));
}

void HostAccelerator::synchronize() { jobs_.wait_until_idle(); }

void HostAccelerator::work() {
  std::vector<CopyJob> one;
  while (jobs_.take(one, 1, 0)) {
    const CopyJob& job = one.front();
    const std::uint64_t checksum =
        job.to ? copy_with_checksum(job.to, job.from) : payload_checksum(job.from);
    completions_.put({{job.ticket, Status(), checksum}});
    // Only now: who synchronizes may destroy what the notification touches.
    jobs_.finished(1);
  }
}

}  // namespace terrace::storage
