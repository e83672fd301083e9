#include "bench/tier_copies.h"

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "core/checksum.h"
#include "storage/arena/memory_file.h"
#include "storage/device/host_accelerator.h"

namespace terrace::bench {

namespace {

using storage::HostAccelerator;
using Steady = std::chrono::steady_clock;

constexpr std::size_t copies_in_flight = 64;

double gigabytes_per_s(std::size_t bytes, Steady::time_point begin) {
  return static_cast<double>(bytes) / std::chrono::duration<double>(Steady::now() - begin).count() /
         1e9;
}

class CopyBench {
 public:
  CopyBench(std::size_t block_bytes, std::size_t blocks)
      : block_bytes_(block_bytes), blocks_(blocks) {}

  Status prepare() {
    auto device = accelerator_.allocate(block_bytes_ * blocks_);
    if (!device) return device.error();
    device_ = std::move(*device);
    auto host = storage::MemoryFile::create("terrace-bench-host", block_bytes_ * blocks_,
                                            storage::MemoryFile::Clients::read_only);
    if (!host) return host.error();
    host_ = std::move(*host);
    std::uint64_t value = 0;
    for (std::size_t at = 0; at < host_->size(); at += sizeof value) {
      value += 0x9E3779B97F4A7C15u;
      std::memcpy(host_->data() + at, &value, sizeof value);
    }
    for (std::size_t i = 0; i < blocks_; ++i)
      checksums_.push_back(payload_checksum({host_->data() + i * block_bytes_, block_bytes_}));
    accelerator_.set_notify([this] {
      {
        const std::lock_guard lock(mutex_);
        news_ = true;
      }
      changed_.notify_one();
    });
    return {};
  }

  ~CopyBench() {
    accelerator_.synchronize();
    accelerator_.set_notify(nullptr);
  }

  std::byte* host() const { return host_->data(); }
  std::byte* device() const { return device_->data(); }

  // GB/s of moving every block once.
  Result<double> move(std::byte* to, const std::byte* from) {
    const auto begin = Steady::now();
    std::size_t started = 0, finished = 0;
    std::vector<storage::CopyCompletion> arrived;
    while (finished < blocks_) {
      for (; started < blocks_ && started - finished < copies_in_flight; ++started)
        accelerator_.copy_async(started, to + started * block_bytes_,
                                {from + started * block_bytes_, block_bytes_});
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return news_; });
        news_ = false;
      }
      arrived.clear();
      accelerator_.take_completions(arrived);
      finished += arrived.size();
      for (const storage::CopyCompletion& one : arrived) {
        if (!one.status.ok()) return error(one.status);
        if (one.checksum != checksums_[one.ticket])
          return error(StatusCode::corruption, "a copied block has another checksum");
      }
    }
    return gigabytes_per_s(block_bytes_ * blocks_, begin);
  }

  // The floor of it: the same with memcpy, every thread its share.
  double move_bare(std::byte* to, const std::byte* from) const {
    const auto begin = Steady::now();
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < HostAccelerator::default_threads; ++thread)
      threads.emplace_back([=, this] {
        for (std::size_t i = thread; i < blocks_; i += HostAccelerator::default_threads)
          std::memcpy(to + i * block_bytes_, from + i * block_bytes_, block_bytes_);
      });
    for (std::thread& thread : threads) thread.join();
    return gigabytes_per_s(block_bytes_ * blocks_, begin);
  }

 private:
  const std::size_t block_bytes_, blocks_;
  HostAccelerator accelerator_;
  std::unique_ptr<storage::DeviceMemory> device_;
  std::unique_ptr<storage::MemoryFile> host_;
  std::vector<std::uint64_t> checksums_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
};

}  // namespace

Result<CopyFigures> measure_copies(std::size_t block_bytes, std::size_t total_bytes,
                                   std::size_t repetitions) {
  CopyBench bench(block_bytes, std::max<std::size_t>(1, total_bytes / block_bytes));
  if (Status status = bench.prepare(); !status.ok()) return error(status);
  CopyFigures figures;
  for (std::size_t i = 0; i <= repetitions; ++i) {
    const double to_device_floor = bench.move_bare(bench.device(), bench.host());
    std::memset(bench.device(), 0, block_bytes);
    const auto to_device = bench.move(bench.device(), bench.host());
    if (!to_device) return error(to_device.error());
    const double to_host_floor = bench.move_bare(bench.host(), bench.device());
    const auto to_host = bench.move(bench.host(), bench.device());
    if (!to_host) return error(to_host.error());
    if (i == 0) continue;  // the caches and the threads are cold
    figures.to_device_floor_GBps.add(to_device_floor);
    figures.host_to_device_GBps.add(*to_device);
    figures.to_host_floor_GBps.add(to_host_floor);
    figures.device_to_host_GBps.add(*to_host);
  }
  return figures;
}

}  // namespace terrace::bench
