#include "bench/restart_store.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <vector>

#include "bench/chain.h"
#include "core/bytes.h"
#include "core/checksum.h"
#include "core/shared_memory.h"
#include "core/unique_fd.h"
#include "storage/device/host_accelerator.h"
#include "storage/disk/disk_store.h"
#include "storage/tiered_cache.h"

namespace terrace::bench {

namespace {

using namespace terrace::storage;
using Steady = std::chrono::steady_clock;

constexpr std::size_t chain_blocks = 500;
constexpr std::size_t max_writes_waiting = 2048;
constexpr std::size_t arena_bytes = 8 * mib;
constexpr std::size_t chains_read_back = 8;
constexpr std::size_t index_room_bytes = kib;  // a block
constexpr std::chrono::seconds io_limit{60};

DiskOptions disk_options(const std::string& directory, std::size_t blocks) {
  DiskOptions options;
  options.directory = directory;
  // Some room, so that nothing is evicted: the data files grow by whole ones, and the index, which
  // the capacity counts, takes some hundred bytes a block, and twice as much while it is compacted.
  options.capacity_bytes =
      round_up((blocks + blocks / 50) * (2 * restart_block_bytes + index_room_bytes),
               options.file_bytes) +
      options.file_bytes;
  return options;
}

// What a block holds follows from its key.
void fill_payload(const BlockKey& key, std::span<std::byte> payload) {
  for (std::size_t at = 0; at < payload.size(); at += sizeof key)
    std::memcpy(payload.data() + at, key.bytes.data(), sizeof key);
}

StoreReport failed(const std::string& message) {
  StoreReport report;
  message.copy(report.message, sizeof report.message - 1);
  return report;
}

// Without files and arenas.
std::int64_t own_bytes() {
  std::int64_t total = 0, resident = 0, shared = 0;
  std::ifstream("/proc/self/statm") >> total >> resident >> shared;
  return (resident - shared) * ::sysconf(_SC_PAGESIZE);
}

// Told from an engine's thread, waited for by this one.
class Signal {
 public:
  void raise() {
    {
      const std::lock_guard lock(mutex_);
      raised_ = true;
    }
    changed_.notify_one();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    const bool raised = changed_.wait_for(lock, io_limit, [&] { return raised_; });
    raised_ = false;
    return raised;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool raised_ = false;
};

// A store that this process has open, with a cache over it.
struct Opened {
  SystemClock clock;
  HostAccelerator accelerator;
  Signal signal;
  std::unique_ptr<TieredCache> cache;
  SpaceId space = 0;
  SessionId session = 0;

  bool complete_until(const std::function<bool()>& done) {
    while (!done()) {
      if (!signal.wait()) return false;
      cache->run_completions();
    }
    return true;
  }
};

std::string read_back(Opened& opened, std::size_t blocks) {
  const BlockKey digest = small_space(restart_block_tokens, restart_block_bytes).digest();
  const std::size_t chains = blocks / chain_blocks;
  const std::unique_ptr<std::byte[]> expected(new std::byte[restart_block_bytes]);
  auto arena =
      SharedMapping::map(opened.cache->device_arena_fd(), opened.cache->device_arena_bytes(),
                         SharedMapping::Access::read_write);
  if (!arena) return arena.error().message();
  for (std::size_t i = 0; i < std::min(chains, chains_read_back); ++i) {
    const Chain chain(digest, restart_block_tokens, i * chains / std::min(chains, chains_read_back),
                      chain_blocks);
    std::optional<std::vector<AcquiredBlock>> got;
    opened.cache->acquire(opened.session, 1 + i, opened.space, chain.keys, {},
                          [&](std::vector<AcquiredBlock> held) { got = std::move(held); });
    if (!opened.complete_until([&] { return got.has_value(); })) return "a load does not end";
    if (got->size() != chain.keys.size()) return "not every block could be read";
    for (std::size_t at = 0; at < got->size(); ++at) {
      fill_payload(chain.keys[at], {expected.get(), restart_block_bytes});
      if (std::memcmp(arena->data() + (*got)[at].slot, expected.get(), restart_block_bytes) != 0)
        return "a block holds other bytes";
    }
    opened.cache->release(opened.session, 1 + i);
  }
  return {};
}

}  // namespace

Result<StoreReport> in_child(const std::function<StoreReport(std::function<void()>& stop)>& work,
                             End end) {
  int ends[2];
  if (::pipe(ends) != 0) return error(errno_status(errno, "could not make a pipe"));
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return error(errno_status(errno, "could not start a process"));
  if (child == 0) {
    std::function<void()> stop;
    const StoreReport report = work(stop);
    bool told = ::write(to.get(), &report, sizeof report) == sizeof report;
    while (told && end == End::killed) ::pause();
    if (stop) stop();
    ::_exit(told ? 0 : 1);
  }
  to.reset();
  StoreReport report;
  const bool got = ::read(from.get(), &report, sizeof report) == sizeof report;
  if (end == End::killed) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  const bool ended = end == End::killed ? WIFSIGNALED(status) : WIFEXITED(status);
  if (!got || !ended) return error(StatusCode::internal, "a process ended in another way");
  if (!report.good) return error(StatusCode::internal, report.message);
  return report;
}

StoreReport fill_store(const std::string& directory, std::size_t blocks,
                       std::function<void()>& stop) {
  auto opened = DiskStore::open(disk_options(directory, blocks));
  if (!opened) return failed(opened.error().message());
  const std::shared_ptr<DiskStore> store = std::move(*opened);
  stop = [store] {};
  Signal signal;
  store->set_notify([&signal] { signal.raise(); });
  const SpaceDescriptor space = small_space(restart_block_tokens, restart_block_bytes);
  const BlockKey digest = space.digest();
  store->add_space(space);

  std::vector<std::byte> payloads(max_writes_waiting * restart_block_bytes);
  std::vector<Ticket> idle(max_writes_waiting);
  for (std::size_t i = 0; i < idle.size(); ++i) idle[i] = i;
  std::vector<DiskCompletion> completions;
  Status status;
  const auto collect = [&](std::size_t wanted) {
    while (status.ok() && idle.size() < wanted) {
      if (!signal.wait()) status = Status(StatusCode::io_error, "a write does not end");
      completions.clear();
      store->take_completions(completions);
      for (const DiskCompletion& completion : completions) {
        idle.push_back(completion.ticket);
        if (!completion.status.ok()) status = completion.status;
      }
    }
  };
  std::size_t written = 0;
  for (std::size_t number = 0; written < blocks && status.ok(); ++number) {
    const Chain chain(digest, restart_block_tokens, number,
                      std::min(chain_blocks, blocks - written));
    for (std::size_t i = 0; i < chain.keys.size() && status.ok(); ++i, ++written) {
      // Half of them, so that a group is under way while the next one is made.
      if (idle.empty()) collect(max_writes_waiting / 2);
      if (!status.ok()) break;
      DiskWrite request;
      request.ticket = idle.back();
      idle.pop_back();
      const auto payload =
          std::span(payloads).subspan(request.ticket * restart_block_bytes, restart_block_bytes);
      fill_payload(chain.keys[i], payload);
      request.space = digest;
      request.key = chain.keys[i];
      request.parent = chain.parent_of(digest, i);
      request.tokens = chain.tokens_of(i);
      request.payload = payload;
      request.payload_checksum = payload_checksum(payload);
      request.recency = number + 1;
      store->write(std::move(request));
    }
  }
  collect(max_writes_waiting);
  store->set_notify({});
  if (!status.ok()) return failed(status.message());
  StoreReport report;
  report.good = true;
  return report;
}

StoreReport open_store_again(const std::string& directory, std::size_t blocks,
                             std::function<void()>& stop) {
  const auto opened = std::make_shared<Opened>();
  const std::int64_t before = own_bytes();
  const auto begin = Steady::now();
  auto store = DiskStore::open(disk_options(directory, blocks));
  if (!store) return failed(store.error().message());
  CacheOptions options;
  options.device_capacity_bytes = arena_bytes;
  auto cache = TieredCache::create(options, opened->accelerator, std::move(*store), opened->clock);
  if (!cache) return failed(cache.error().message());
  StoreReport report;
  report.ready_s = std::chrono::duration<double>(Steady::now() - begin).count();
  opened->cache = std::move(*cache);
  const std::uint64_t known = opened->cache->stats().tiers[2].blocks;
  if (known != blocks)
    return failed(std::to_string(known) + " blocks are known instead of " + std::to_string(blocks));
  report.grown_bytes = own_bytes() - before;

  opened->cache->set_wake([opened = opened.get()] { opened->signal.raise(); });
  const auto space =
      opened->cache->open_space(small_space(restart_block_tokens, restart_block_bytes));
  if (!space) return failed(space.error().message());
  opened->space = *space;
  opened->session = opened->cache->open_session();
  if (const std::string wrong = read_back(*opened, blocks); !wrong.empty()) return failed(wrong);
  report.good = true;
  stop = [opened] {
    bool drained = false;
    opened->cache->drain([&] { drained = true; });
    opened->complete_until([&] { return drained; });
    opened->cache.reset();
  };
  return report;
}

}  // namespace terrace::bench
