#include "bench/tier_disk.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <random>
#include <vector>

#include "bench/bare_file.h"
#include "core/checksum.h"
#include "core/unique_fd.h"
#include "storage/arena/memory_file.h"
#include "storage/disk/disk_store.h"

namespace terrace::bench {

namespace {

namespace fs = std::filesystem;
using namespace terrace::storage;
using Steady = std::chrono::steady_clock;

constexpr std::size_t memory_bytes = 64 * mib;  // of payloads, and of as many places to read to
constexpr std::size_t reads_in_flight = BareFile::depth;
// As the cache does: durable blocks are waited for in a longer queue than the device's.
constexpr std::size_t max_writes_waiting = 128;
constexpr std::uint64_t max_write_bytes_waiting = 64 * mib;

double gigabytes_per_s(std::size_t bytes, double ms) {
  return static_cast<double>(bytes) / ms / 1e6;
}

// Bytes that the kernel was told to write for this process, its threads included.
std::uint64_t process_write_bytes() {
  std::ifstream io("/proc/self/io");
  for (std::string name; io >> name;) {
    std::uint64_t value = 0;
    io >> value;
    if (name == "write_bytes:") return value;
  }
  return 0;
}

// Bytes of a file that lie in the page cache.
std::uint64_t cached_bytes(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::error_code code;
  const std::size_t bytes = fs::file_size(path, code);
  if (!fd || code || bytes == 0) return 0;
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (map == MAP_FAILED) return 0;
  std::vector<unsigned char> pages((bytes + 4095) / 4096);
  std::uint64_t cached = 0;
  if (::mincore(map, bytes, pages.data()) == 0)
    cached = static_cast<std::uint64_t>(
                 std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; })) *
             4096;
  ::munmap(map, bytes);
  return cached;
}

std::uint64_t cached_bytes_below(const std::string& directory, bool of_index) {
  std::uint64_t sum = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    const bool in_index = entry.path().string().find("/index/") != std::string::npos;
    const bool data = entry.path().filename().string().starts_with("data-");
    if (of_index ? in_index && entry.is_regular_file() : data) sum += cached_bytes(entry.path());
  }
  return sum;
}

class DiskBench {
 public:
  DiskBench(std::size_t block_bytes, std::size_t blocks)
      : block_bytes_(block_bytes),
        blocks_(blocks),
        slots_(std::clamp<std::size_t>(memory_bytes / block_bytes, 1, blocks)) {}

  Status prepare(const std::string& directory, RingKind ring) {
    DiskOptions options;
    options.directory = directory + "/disk";
    options.capacity_bytes = 2 * blocks_ * (block_bytes_ + 4096) + 256 * mib;
    options.ring = ring;
    auto store = DiskStore::open(options);
    if (!store) return store.error();
    store_ = std::move(*store);
    store_->set_notify([this] {
      {
        const std::lock_guard lock(mutex_);
        news_ = true;
      }
      changed_.notify_one();
    });
    for (auto* memory : {&sources_, &destinations_}) {
      auto made = MemoryFile::create("terrace-bench", slots_ * block_bytes_,
                                     MemoryFile::Clients::read_write);
      if (!made) return made.error();
      *memory = std::move(*made);
    }
    std::mt19937_64 random(block_bytes_);
    for (std::size_t at = 0; at < sources_->size(); at += sizeof(std::uint64_t)) {
      const std::uint64_t value = random();
      std::memcpy(sources_->data() + at, &value, sizeof value);
    }
    for (std::size_t i = 0; i < slots_; ++i) checksums_.push_back(payload_checksum(source(i)));

    SpaceDescriptor space;
    space.numerics_id = "bench";
    space.kv_dtype = "bf16";
    space.layout_id = "bench";
    space.block_bytes = block_bytes_;
    store_->add_space(space);
    space_ = space.digest();
    for (std::size_t i = 0; i < blocks_; ++i) {
      std::vector<Token> tokens(space.block_tokens);
      for (Token& token : tokens) token = static_cast<Token>(random() % 128'000);
      keys_.push_back(derive_block_key(space_, tokens));
      tokens_.push_back(std::move(tokens));
    }
    order_.resize(blocks_);
    for (std::size_t i = 0; i < blocks_; ++i) order_[i] = i;
    std::ranges::shuffle(order_, random);
    return {};
  }

  ~DiskBench() {
    if (store_) store_->set_notify(nullptr);
  }

  const DiskStore& store() const { return *store_; }

  // Milliseconds until every block is acknowledged as durable.
  Result<double> write_all_ms() {
    const std::size_t depth = std::clamp<std::size_t>(max_write_bytes_waiting / block_bytes_,
                                                      BareFile::depth, max_writes_waiting);
    const auto start = [&](std::size_t i) {
      DiskWrite write;
      write.ticket = i;
      write.space = write.parent = space_;
      write.key = keys_[i];
      write.tokens = tokens_[i];
      write.payload = source(i);
      write.payload_checksum = checksums_[i % slots_];
      write.recency = i;
      store_->write(std::move(write));
    };
    return timed(depth, start, blocks_, [](const DiskCompletion&) {});
  }

  Result<double> read_all_ms() {
    std::memset(destinations_->data(), 0, destinations_->size());
    std::vector<std::size_t> idle, block_at(slots_, blocks_), place_of(blocks_);
    for (std::size_t place = 0; place < slots_; ++place) idle.push_back(place);
    const auto start = [&](std::size_t i) {
      const std::size_t block = order_[i], place = idle.back();
      idle.pop_back();
      place_of[block] = place;
      block_at[place] = block;
      store_->read({block,
                    space_,
                    keys_[block],
                    space_,
                    tokens_[block],
                    {destinations_->data() + place * block_bytes_, block_bytes_}});
    };
    const auto elapsed =
        timed(std::min(reads_in_flight, slots_), start, blocks_,
              [&](const DiskCompletion& one) { idle.push_back(place_of[one.ticket]); });
    if (!elapsed) return elapsed;
    // The last block that came to each place.
    for (std::size_t place = 0; place < slots_; ++place)
      if (block_at[place] < blocks_ &&
          std::memcmp(destinations_->data() + place * block_bytes_, source(block_at[place]).data(),
                      block_bytes_) != 0)
        return error(StatusCode::corruption, "a block that was read is not what was written");
    return elapsed;
  }

  Status erase_all() {
    for (const BlockKey& key : keys_) store_->erase(key);
    const auto flushed = timed(
        1, [&](std::size_t ticket) { store_->flush(ticket); }, 1, [](const DiskCompletion&) {});
    return flushed ? Status() : flushed.error();
  }

 private:
  std::span<const std::byte> source(std::size_t block) const {
    return {sources_->data() + block % slots_ * block_bytes_, block_bytes_};
  }

  // Starts request after request, `depth` at the same time, until `count` are complete.
  Result<double> timed(std::size_t depth, const std::function<void(std::size_t)>& start,
                       std::size_t count,
                       const std::function<void(const DiskCompletion&)>& completed) {
    const auto begin = Steady::now();
    std::size_t started = 0, finished = 0;
    std::vector<DiskCompletion> arrived;
    while (finished < count) {
      for (; started < count && started - finished < depth; ++started) start(started);
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return news_; });
        news_ = false;
      }
      arrived.clear();
      store_->take_completions(arrived);
      finished += arrived.size();
      for (const DiskCompletion& one : arrived) {
        if (!one.status.ok()) return error(one.status);
        if (count == blocks_ && one.payload_checksum != checksums_[one.ticket % slots_])
          return error(StatusCode::corruption, "a block has another checksum");
        completed(one);
      }
    }
    return std::chrono::duration<double, std::milli>(Steady::now() - begin).count();
  }

  const std::size_t block_bytes_, blocks_, slots_;
  std::unique_ptr<MemoryFile> sources_, destinations_;
  std::vector<std::uint64_t> checksums_;
  BlockKey space_;
  std::vector<BlockKey> keys_;
  std::vector<std::vector<Token>> tokens_;
  std::vector<std::size_t> order_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
  std::unique_ptr<DiskStore> store_;
};

}  // namespace

Result<DiskFigures> measure_disk(const std::string& directory, std::size_t block_bytes,
                                 std::size_t total_bytes, std::size_t repetitions,
                                 storage::RingKind ring) {
  const std::size_t blocks = std::max<std::size_t>(2 * BareFile::depth, total_bytes / block_bytes);
  const std::size_t bytes = blocks * block_bytes;
  auto bare = BareFile::create(directory, block_bytes, blocks);
  if (!bare) return error(bare.error());
  DiskBench bench(block_bytes, blocks);
  if (Status status = bench.prepare(directory, ring); !status.ok()) return error(status);
  DiskFigures figures;
  figures.block_bytes = block_bytes;
  figures.ring = bench.store().ring_name();
  const std::uint64_t cached = cached_bytes_below(directory, false);
  std::uint64_t written_bytes = 0;
  for (std::size_t i = 0; i <= repetitions; ++i) {
    const std::uint64_t before = process_write_bytes();
    const auto write = bench.write_all_ms();
    if (!write) return error(write.error());
    std::uint64_t written = process_write_bytes() - before;
    const auto bare_write = bare->write_all_ms(BareFile::depth);
    if (!bare_write) return error(bare_write.error());
    const auto bare_write_one_sync = bare->write_all_ms(0);
    if (!bare_write_one_sync) return error(bare_write_one_sync.error());
    const auto read = bench.read_all_ms();
    if (!read) return error(read.error());
    const auto bare_read = bare->read_all_ms();
    if (!bare_read) return error(bare_read.error());
    const std::uint64_t before_erase = process_write_bytes();
    if (Status erased = bench.erase_all(); !erased.ok()) return error(erased);
    written += process_write_bytes() - before_erase;
    if (i == 0) continue;  // the files were new
    written_bytes += written;
    figures.write_GBps.add(gigabytes_per_s(bytes, *write));
    figures.bare_write_GBps.add(gigabytes_per_s(bytes, *bare_write));
    figures.bare_write_one_sync_GBps.add(gigabytes_per_s(bytes, *bare_write_one_sync));
    figures.read_GBps.add(gigabytes_per_s(bytes, *read));
    figures.bare_read_GBps.add(gigabytes_per_s(bytes, *bare_read));
  }
  figures.write_amplification =
      static_cast<double>(written_bytes) / static_cast<double>(repetitions * bytes);
  figures.page_cache_growth_bytes =
      static_cast<std::int64_t>(cached_bytes_below(directory, false)) -
      static_cast<std::int64_t>(cached);
  figures.index_cache_bytes = cached_bytes_below(directory, true);
  figures.direct = bench.store().direct();
  return figures;
}

}  // namespace terrace::bench
