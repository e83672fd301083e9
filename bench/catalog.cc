#include "bench/catalog.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>

#include "bench/chain.h"
#include "bench/environment.h"
#include "bench/samples.h"
#include "bench/untouched_accelerator.h"
#include "storage/tiered_cache.h"

namespace terrace::bench {

namespace {

using Steady = std::chrono::steady_clock;
using storage::LeaseId;

constexpr std::uint32_t block_tokens = 32;
constexpr std::uint64_t slot_bytes = 4096;  // the least
constexpr std::size_t operation_blocks = 16;
constexpr std::size_t operation_samples = 7;
constexpr std::size_t max_operations_a_sample = 500;

std::size_t resident_bytes() {
  std::size_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

template <typename Call>
double microseconds(Call&& call) {
  const auto begin = Steady::now();
  call();
  return std::chrono::duration<double, std::micro>(Steady::now() - begin).count();
}

// A cache whose device tier is full with a number of blocks.
class FullCache {
 public:
  static Result<std::unique_ptr<FullCache>> create(std::size_t blocks, std::size_t chain_blocks) {
    auto full = std::unique_ptr<FullCache>(new FullCache(blocks, chain_blocks));
    storage::CacheOptions options;
    options.device_capacity_bytes = blocks * slot_bytes;
    options.device_verify = storage::DeviceVerify::never;
    auto cache = storage::TieredCache::create(options, full->accelerator_, nullptr, full->clock_);
    if (!cache) return error(cache.error());
    full->cache_ = std::move(*cache);
    const auto space = full->cache_->open_space(small_space(block_tokens, slot_bytes));
    if (!space) return error(space.error());
    full->space_ = *space;
    full->session_ = full->cache_->open_session();
    const std::size_t before = resident_bytes();
    for (; full->chains_ < blocks / chain_blocks; ++full->chains_)
      if (!full->put(Chain(full->digest_, block_tokens, full->chains_, chain_blocks)))
        return error(StatusCode::internal, "a chain could not be sealed");
    if (!full->put(Chain(full->digest_, block_tokens, full->next_small_++, blocks % chain_blocks)))
      return error(StatusCode::internal, "a chain could not be sealed");
    full->grown_bytes_ = resident_bytes() - before;
    return full;
  }

  std::size_t blocks() const { return blocks_; }
  // Of the process, while the cache was filled.
  double resident_bytes_per_block() const {
    return static_cast<double>(grown_bytes_) / static_cast<double>(blocks_) -
           block_tokens * sizeof(Token);
  }
  double bytes_per_block() const {
    const storage::CacheStats stats = cache_->stats();
    return static_cast<double>(stats.catalog_bytes - stats.catalog_token_bytes) /
           static_cast<double>(stats.known_blocks);
  }

  // `again`: the same chain as last time, which the processor still has in its caches.
  Status match(bool again) {
    if (!again) asked_ = std::make_unique<Chain>(digest_, block_tokens, any_chain(), chain_blocks_);
    storage::MatchResult result;
    const double us =
        microseconds([&] { result = cache_->match(space_, asked_->keys, asked_->tokens); });
    (again ? hot_match_us : match_us).add(us);
    return result.matched_blocks == chain_blocks_
               ? Status()
               : Status(StatusCode::internal, "not every block matched");
  }

  // Inserts, touches and evicts as many blocks of each.
  Status operate(std::size_t times) {
    std::vector<Chain> fresh, old;
    for (std::size_t i = 0; i < times; ++i) {
      fresh.emplace_back(digest_, block_tokens, next_small_++, operation_blocks);
      old.push_back(resident_chain());
    }
    const std::uint64_t evicted = cache_->stats().tiers[0].evictions;
    bool good = true;
    std::size_t touched = 0;
    const double us = microseconds([&] {
      for (std::size_t i = 0; i < times; ++i) {
        good = put(fresh[i]) && good;
        touched += use(old[i]);
      }
    });
    const std::size_t blocks = times * operation_blocks;
    operation_ns.add(1000 * us / static_cast<double>(blocks));
    // What the reuse index thinks little of may have gone meanwhile.
    good = good && touched >= blocks * 9 / 10;
    if (!good || cache_->stats().tiers[0].evictions != evicted + blocks)
      return Status(StatusCode::internal, "blocks were not inserted, touched and evicted");
    return {};
  }

  // So many that what is touched was not evicted before.
  std::size_t operations_a_sample() const {
    return std::min(max_operations_a_sample,
                    blocks_ / 2 / operation_blocks / (operation_samples + 1));
  }

  Samples match_us, hot_match_us, operation_ns;

 private:
  FullCache(std::size_t blocks, std::size_t chain_blocks)
      : blocks_(blocks),
        chain_blocks_(chain_blocks),
        digest_(small_space(block_tokens, slot_bytes).digest()) {}

  bool put(const Chain& chain) {
    const LeaseId lease = next_lease_++;
    const auto slots = cache_->reserve(session_, lease, space_, chain.keys, 0);
    std::vector<storage::SealRequest> requests;
    for (std::size_t i = 0; i < slots.size(); ++i)
      requests.push_back({slots[i], chain.parent_of(digest_, i), chain.tokens_of(i), 0});
    bool good = slots.size() == chain.keys.size();
    for (const auto outcome : cache_->seal(session_, lease, requests))
      good = good && outcome == storage::SealOutcome::sealed;
    cache_->release(session_, lease);
    return good;
  }

  // How many of its blocks there were.
  std::size_t use(const Chain& chain) {
    const LeaseId lease = next_lease_++;
    std::size_t got = 0;
    cache_->acquire(
        session_, lease, space_, chain.keys, {},
        [&](const std::vector<storage::AcquiredBlock>& blocks) { got = blocks.size(); });
    cache_->release(session_, lease);
    return got;
  }

  // The head of one that has not been evicted. Most are there, since operate() evicts few.
  Chain resident_chain() {
    for (;;) {
      Chain chain(digest_, block_tokens, any_chain(), operation_blocks);
      if (cache_->match(space_, chain.keys, {}).matched_blocks == operation_blocks) return chain;
    }
  }

  // One of the newer half.
  std::uint64_t any_chain() {
    return std::uniform_int_distribution<std::uint64_t>(chains_ / 2, chains_ - 1)(random_);
  }

  const std::size_t blocks_, chain_blocks_;
  const BlockKey digest_;
  UntouchedAccelerator accelerator_;
  const SystemClock clock_;
  std::unique_ptr<storage::TieredCache> cache_;
  storage::SpaceId space_ = 0;
  storage::SessionId session_ = 0;
  LeaseId next_lease_ = 1;
  std::uint64_t chains_ = 0;
  std::uint64_t next_small_ = std::uint64_t{1} << 40;  // far from those of `chains_`
  std::size_t grown_bytes_ = 0;
  std::mt19937_64 random_{7};
  std::unique_ptr<Chain> asked_;
};

Status measure(std::vector<std::unique_ptr<FullCache>>& caches, std::size_t rounds) {
  for (std::size_t round = 0; round < rounds; ++round)
    for (auto& cache : caches)
      for (const bool again : {false, true})
        if (Status status = cache->match(again); !status.ok()) return status;
  for (std::size_t sample = 0; sample < operation_samples; ++sample)
    for (auto& cache : caches)
      if (Status status = cache->operate(cache->operations_a_sample()); !status.ok()) return status;
  return {};
}

}  // namespace

int run_catalog(const CatalogOptions& options, std::ostream& out, std::ostream& err) {
  print_environment(out);
  const auto fail = [&](const std::string& message) {
    err << "terrace-bench: " << message << std::endl;
    return 1;
  };
  std::vector<std::unique_ptr<FullCache>> caches;
  for (const std::size_t blocks : options.blocks) {
    // Half of what is there is matched and touched while operations evict the other half.
    if (blocks < 4 * options.match_blocks)
      return fail("a catalog of " + std::to_string(blocks) +
                  " blocks is too small for matches of " + std::to_string(options.match_blocks));
    auto cache = FullCache::create(blocks, options.match_blocks);
    if (!cache) return fail(cache.error().message());
    caches.push_back(std::move(*cache));
  }
  if (Status status = measure(caches, options.rounds); !status.ok()) return fail(status.message());

  out << "A match of " << options.match_blocks
      << " blocks that are all there: of a chain not asked "
      << "for lately, and of the one just asked for.\nAn operation inserts, touches and evicts one "
      << "block. Memory is besides token ids; resident: of the process, slots included.\n";
  nlohmann::ordered_json matches = nlohmann::ordered_json::array(), operations = matches;
  nlohmann::ordered_json match_100k;
  for (const auto& cache : caches) {
    out << std::fixed << std::setprecision(1) << std::setw(9) << cache->blocks()
        << " blocks: match " << cache->match_us.median() << " us (p99 "
        << cache->match_us.quantile(0.99) << "), again " << cache->hot_match_us.median()
        << " us; operation " << cache->operation_ns.median() << " ns; " << cache->bytes_per_block()
        << " bytes a block, resident " << cache->resident_bytes_per_block() << "\n";
    matches.push_back({{"blocks", cache->blocks()},
                       {"us", cache->match_us.median()},
                       {"p99_us", cache->match_us.quantile(0.99)},
                       {"again_us", cache->hot_match_us.median()}});
    operations.push_back(
        {{"blocks", cache->blocks()}, {"ns_per_op", cache->operation_ns.median()}});
    if (cache->blocks() == 100'000) match_100k = cache->match_us.median();
  }
  const FullCache& last = *caches.back();
  const nlohmann::ordered_json line = {
      {"bench", "catalog"},
      {"match512_us", last.match_us.median()},
      {"match512_us_100k", match_100k},
      {"bytes_per_block", last.bytes_per_block()},
      {"resident_bytes_per_block", last.resident_bytes_per_block()},
      {"ops", operations},
      {"matches", matches},
      {"blocks", last.blocks()},
      {"match_blocks", options.match_blocks},
      {"debug_build", is_debug_build()}};
  out << line.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
