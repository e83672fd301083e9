#include "bench/redis.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <iomanip>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <random>

#include "bench/bare_redis.h"
#include "bench/chain.h"
#include "bench/environment.h"
#include "bench/samples.h"
#include "bench/untouched_accelerator.h"
#include "core/checksum.h"
#include "core/record.h"
#include "storage/arena/memory_file.h"
#include "storage/redis/redis_store.h"
#include "storage/tiered_cache.h"
#include "tests/support/redis_server.h"

namespace terrace::bench {

namespace {

using namespace terrace::storage;
using Steady = std::chrono::steady_clock;

constexpr std::size_t quick_bytes = 64 * mib;
// Of values in memory here; far more than caches hold.
constexpr std::size_t memory_bytes = 64 * mib;
constexpr std::size_t max_reads_at_once = 256, max_writes_at_once = 64;
constexpr std::size_t lookup_keys = 512, lookup_rounds = 101;
constexpr std::uint32_t block_tokens = 32;
constexpr const char* key_prefix = "terrace-bench";

double milliseconds_since(Steady::time_point begin) {
  return std::chrono::duration<double, std::milli>(Steady::now() - begin).count();
}

struct SizeFigures {
  std::size_t block_bytes = 0;
  BareRedis::Shape get_shape, set_shape;  // the best of the floor
  Samples get_GBps, set_GBps, bare_get_GBps, bare_set_GBps;
  double get_ratio() const { return get_GBps.median() / bare_get_GBps.median(); }
  double set_ratio() const { return set_GBps.median() / bare_set_GBps.median(); }
};

class RedisBench {
 public:
  RedisBench(const RedisEndpoint& endpoint, unsigned connections, std::size_t block_bytes,
             std::size_t blocks)
      : block_bytes_(block_bytes),
        slots_(std::clamp<std::size_t>(memory_bytes / block_bytes, 1, blocks)),
        space_(small_space(block_tokens, block_bytes)),
        digest_(space_.digest()),
        chain_(digest_, block_tokens, block_bytes, blocks),
        endpoint_(endpoint) {
    options_.endpoints = {endpoint};
    options_.ttl_ms = 3'600'000;
    options_.key_prefix = key_prefix;
    options_.request_timeout_ms = 60'000;
    options_.negative_ttl_ms = 0;
    if (connections > 0) options_.connections_per_server = connections;
    for (const BlockKey& key : chain_.keys)
      names_.push_back(std::string(key_prefix) + ":" + std::to_string(record_version) + ":" +
                       digest_.hex() + ":" + key.hex());
  }
  ~RedisBench() {
    if (store_) store_->set_notify(nullptr);
  }

  Status prepare() {
    auto store = RedisStore::open(options_);
    if (!store) return store.error();
    store_ = std::move(*store);
    store_->set_notify([this] {
      {
        const std::lock_guard lock(mutex_);
        news_ = true;
      }
      changed_.notify_one();
    });
    store_->add_space(space_);
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
    std::memset(destinations_->data(), 0, destinations_->size());
    for (std::size_t i = 0; i < slots_; ++i) checksums_.push_back(payload_checksum(source(i)));
    auto bare = BareRedis::connect(endpoint_);
    if (!bare) return bare.error();
    bare_.emplace(std::move(*bare));
    return {};
  }

  Result<double> set_all_ms() {
    return timed(
        std::min(slots_, max_writes_at_once),
        [this](std::size_t i, std::size_t) {
          store_->write({i, digest_, chain_.keys[i], chain_.parent_of(digest_, i),
                         chain_.tokens_of(i), source(i), checksums_[i % slots_]});
        },
        false);
  }

  Result<double> get_all_ms() {
    return timed(
        std::min(slots_, max_reads_at_once),
        [this](std::size_t i, std::size_t place) {
          store_->read({i, digest_, chain_.keys[i], chain_.parent_of(digest_, i),
                        chain_.tokens_of(i), destination(place)});
        },
        true);
  }

  Result<double> lookup_ms() {
    const auto begin = Steady::now();
    store_->lookup({0, digest_, {chain_.keys.begin(), chain_.keys.end()}, 0});
    std::vector<RemoteCompletion> arrived;
    wait_for(arrived);
    const double elapsed = milliseconds_since(begin);
    if (arrived.size() != 1 || !arrived[0].status.ok() || arrived[0].present != chain_.keys.size())
      return error(StatusCode::internal, "not every key was found");
    return elapsed;
  }

  Result<double> bare_get_all_ms(BareRedis::Shape shape, std::size_t blocks) {
    return bare_->get_all_ms(
        std::span(names_).first(blocks),
        [this](std::size_t i) {
          return BareRedis::Place{header_, destination(i % slots_)};
        },
        shape);
  }
  Result<double> bare_set_all_ms(BareRedis::Shape shape, std::size_t blocks) {
    return bare_->set_all_ms(
        std::span(names_).first(blocks),
        [this](std::size_t i) {
          return BareRedis::Place{header_,
                                  {sources_->data() + i % slots_ * block_bytes_, block_bytes_}};
        },
        shape);
  }
  Result<double> bare_exists_ms() { return bare_->exists_ms(names_); }

  std::size_t blocks() const { return names_.size(); }

 private:
  std::span<const std::byte> source(std::size_t block) const {
    return {sources_->data() + block % slots_ * block_bytes_, block_bytes_};
  }
  std::span<std::byte> destination(std::size_t place) const {
    return {destinations_->data() + place * block_bytes_, block_bytes_};
  }

  void wait_for(std::vector<RemoteCompletion>& arrived) {
    while (arrived.empty()) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return news_; });
        news_ = false;
      }
      store_->take_completions(arrived);
    }
  }

  // Starts request after request, `depth` at the same time, until each block had its own.
  Result<double> timed(std::size_t depth,
                       const std::function<void(std::size_t, std::size_t)>& start, bool reads) {
    std::vector<std::size_t> idle, place_of(blocks()), block_at(slots_, blocks());
    for (std::size_t i = 0; i < depth; ++i) idle.push_back(i);
    const auto begin = Steady::now();
    std::size_t started = 0, finished = 0;
    std::vector<RemoteCompletion> arrived;
    while (finished < blocks()) {
      for (; started < blocks() && !idle.empty(); ++started) {
        place_of[started] = idle.back();
        block_at[idle.back()] = started;
        idle.pop_back();
        start(started, place_of[started]);
      }
      arrived.clear();
      wait_for(arrived);
      finished += arrived.size();
      for (const RemoteCompletion& one : arrived) {
        if (!one.status.ok()) return error(one.status);
        if (reads && one.payload_checksum != checksums_[one.ticket % slots_])
          return error(StatusCode::corruption, "a block has another checksum");
        idle.push_back(place_of[one.ticket]);
      }
    }
    const double elapsed = milliseconds_since(begin);
    // The last block that came to each place.
    for (std::size_t place = 0; reads && place < slots_; ++place)
      if (block_at[place] < blocks() &&
          std::memcmp(destination(place).data(), source(block_at[place]).data(), block_bytes_) != 0)
        return error(StatusCode::corruption, "a block that was read is not what was written");
    return elapsed;
  }

  const std::size_t block_bytes_, slots_;
  const SpaceDescriptor space_;
  const BlockKey digest_;
  const Chain chain_;
  const RedisEndpoint endpoint_;
  RedisOptions options_;
  std::vector<std::string> names_;
  std::unique_ptr<MemoryFile> sources_, destinations_;
  std::vector<std::uint64_t> checksums_;
  std::vector<std::byte> header_ = std::vector<std::byte>(record_header_bytes);
  std::optional<BareRedis> bare_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
  std::unique_ptr<RedisStore> store_;
};

// The connections and the depth with which bare sockets are fastest.
Result<BareRedis::Shape> best_shape(
    std::size_t blocks, const std::function<Result<double>(BareRedis::Shape, std::size_t)>& run) {
  constexpr int tries = 2;
  BareRedis::Shape best;
  double best_ms = std::numeric_limits<double>::infinity();
  const std::size_t part = std::max<std::size_t>(blocks / 2, std::min<std::size_t>(blocks, 16));
  for (const std::size_t connections : {1, 2, 3, 4, 8}) {
    for (const std::size_t depth : {1, 2, 4, 16}) {
      for (int i = 0; i < tries; ++i) {
        const auto ms = run({connections, depth}, part);
        if (!ms) return error(ms.error());
        if (*ms < best_ms) {
          best_ms = *ms;
          best = {connections, depth};
        }
      }
    }
  }
  return best;
}

Result<SizeFigures> measure_size(const RedisEndpoint& endpoint, unsigned connections,
                                 std::size_t block_bytes, std::size_t total_bytes,
                                 std::size_t repetitions) {
  RedisBench bench(endpoint, connections, block_bytes,
                   std::max<std::size_t>(16, total_bytes / block_bytes));
  if (Status status = bench.prepare(); !status.ok()) return error(status);
  SizeFigures figures;
  figures.block_bytes = block_bytes;
  const std::size_t blocks = bench.blocks();
  auto set_shape = best_shape(blocks, [&](BareRedis::Shape shape, std::size_t part) {
    return bench.bare_set_all_ms(shape, part);
  });
  if (!set_shape) return error(set_shape.error());
  figures.set_shape = *set_shape;
  auto get_shape = best_shape(blocks, [&](BareRedis::Shape shape, std::size_t part) {
    return bench.bare_get_all_ms(shape, std::min(part, blocks / 2));
  });
  if (!get_shape) return error(get_shape.error());
  figures.get_shape = *get_shape;

  const double gigabytes = static_cast<double>(blocks * block_bytes) / 1e9;
  for (std::size_t i = 0; i <= repetitions; ++i) {
    const auto bare_set = bench.bare_set_all_ms(figures.set_shape, blocks);
    if (!bare_set) return error(bare_set.error());
    const auto set = bench.set_all_ms();
    if (!set) return error(set.error());
    const auto bare_get = bench.bare_get_all_ms(figures.get_shape, blocks);
    if (!bare_get) return error(bare_get.error());
    const auto get = bench.get_all_ms();
    if (!get) return error(get.error());
    if (i == 0) continue;  // memory was new
    figures.bare_set_GBps.add(gigabytes / *bare_set * 1000);
    figures.set_GBps.add(gigabytes / *set * 1000);
    figures.bare_get_GBps.add(gigabytes / *bare_get * 1000);
    figures.get_GBps.add(gigabytes / *get * 1000);
  }
  return figures;
}

struct LookupFigures {
  Samples ms, bare_ms;
};

Result<LookupFigures> measure_lookup(const RedisEndpoint& endpoint) {
  RedisBench bench(endpoint, 0, 4096, lookup_keys);
  if (Status status = bench.prepare(); !status.ok()) return error(status);
  if (const auto set = bench.set_all_ms(); !set) return error(set.error());
  LookupFigures figures;
  for (std::size_t i = 0; i < lookup_rounds; ++i) {
    const auto bare = bench.bare_exists_ms();
    if (!bare) return error(bare.error());
    const auto ms = bench.lookup_ms();
    if (!ms) return error(ms.error());
    figures.bare_ms.add(*bare);
    figures.ms.add(*ms);
  }
  return figures;
}

// What a match of blocks that are all kept here takes without such a tier, and with one whose
// server is away.
class LocalMatch {
 public:
  static Result<std::unique_ptr<LocalMatch>> create(std::unique_ptr<RemoteTier> remote) {
    auto local = std::unique_ptr<LocalMatch>(new LocalMatch());
    CacheOptions options;
    options.device_capacity_bytes = 64 * mib;
    options.device_verify = DeviceVerify::never;
    auto cache = TieredCache::create(options, local->accelerator_, nullptr, local->clock_,
                                     std::move(remote));
    if (!cache) return error(cache.error());
    local->cache_ = std::move(*cache);
    const auto space = local->cache_->open_space(local->descriptor_);
    if (!space) return error(space.error());
    local->space_ = *space;
    const SessionId session = local->cache_->open_session();
    const Chain& chain = local->chain_;
    const auto slots = local->cache_->reserve(session, 1, *space, chain.keys, 0);
    std::vector<SealRequest> requests;
    for (std::size_t i = 0; i < slots.size(); ++i)
      requests.push_back(
          {slots[i], chain.parent_of(local->descriptor_.digest(), i), chain.tokens_of(i), 0});
    for (const auto outcome : local->cache_->seal(session, 1, requests))
      if (outcome != SealOutcome::sealed)
        return error(StatusCode::internal, "a block could not be sealed");
    local->cache_->release(session, 1);
    return local;
  }

  // Microseconds of a question and its answer, as a session asks it.
  Result<double> match_us() {
    const auto begin = Steady::now();
    bool answered = false;
    cache_->look_up(space_, chain_.keys, chain_.tokens, clock_.monotonic_ns() + 10'000'000,
                    [&answered] { answered = true; });
    const MatchResult result = cache_->match(space_, chain_.keys, chain_.tokens);
    const double us = 1000 * milliseconds_since(begin);
    if (!answered || result.matched_blocks != chain_.keys.size())
      return error(StatusCode::internal, "not every block matched at once");
    return us;
  }

 private:
  const SystemClock clock_;
  UntouchedAccelerator accelerator_;
  const SpaceDescriptor descriptor_ = small_space(block_tokens, 4096);
  const Chain chain_{descriptor_.digest(), block_tokens, 1, lookup_keys};
  std::unique_ptr<TieredCache> cache_;
  SpaceId space_ = 0;
};

struct DownFigures {
  Samples without_us, down_us;
  double ratio() const { return down_us.median() / without_us.median(); }
};

Result<DownFigures> measure_down() {
  constexpr std::size_t rounds = 2001;
  RedisOptions options;
  options.endpoints = {{"127.0.0.1", test_support::free_port()}};
  auto store = RedisStore::open(options);
  if (!store) return error(store.error());
  if (!test_support::wait_until([&] { return !(*store)->available(); }))
    return error(StatusCode::internal, "somebody listens where nobody should");
  auto without = LocalMatch::create(nullptr);
  if (!without) return error(without.error());
  auto down = LocalMatch::create(std::move(*store));
  if (!down) return error(down.error());
  DownFigures figures;
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto first = (*without)->match_us();
    if (!first) return error(first.error());
    const auto second = (*down)->match_us();
    if (!second) return error(second.error());
    figures.without_us.add(*first);
    figures.down_us.add(*second);
  }
  return figures;
}

void print_line(std::ostream& out, const char* what, const Samples& value, const Samples& floor,
                BareRedis::Shape shape) {
  out << "  " << what << std::fixed << std::setprecision(2) << std::setw(7) << value.median()
      << " GB/s   " << value.median() / floor.median() << " of bare sockets (" << floor.median()
      << " GB/s with " << shape.connections << " connections, " << shape.depth << " deep)\n";
}

}  // namespace

int run_redis(const RedisBenchOptions& options, std::ostream& out, std::ostream& err) {
  print_environment(out);
  const auto fail = [&err](const Status& status) {
    err << "terrace-bench: " << status.message() << std::endl;
    return 1;
  };
  std::optional<test_support::RedisServer> server;
  RedisEndpoint endpoint;
  if (options.address.empty()) {
    endpoint = {"127.0.0.1", server.emplace().port()};
  } else {
    const auto parsed = parse_redis_endpoint(options.address);
    if (!parsed) return fail(parsed.error());
    endpoint = *parsed;
  }
  const std::size_t bytes =
      options.quick ? std::min(quick_bytes, options.megabytes * mib) : options.megabytes * mib;
  const std::size_t repetitions =
      options.quick ? std::min<std::size_t>(options.repetitions, 5) : options.repetitions;

  nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
  double worst_get = std::numeric_limits<double>::infinity(), worst_set = worst_get;
  for (const std::size_t kib_of_block : options.block_kib) {
    const auto figures =
        measure_size(endpoint, options.connections, kib_of_block * kib, bytes, repetitions);
    if (!figures) return fail(figures.error());
    out << kib_of_block << " KiB:\n";
    print_line(out, "GET", figures->get_GBps, figures->bare_get_GBps, figures->get_shape);
    print_line(out, "SET", figures->set_GBps, figures->bare_set_GBps, figures->set_shape);
    worst_get = std::min(worst_get, figures->get_ratio());
    worst_set = std::min(worst_set, figures->set_ratio());
    sizes.push_back({{"bytes", figures->block_bytes},
                     {"get_ratio", figures->get_ratio()},
                     {"set_ratio", figures->set_ratio()},
                     {"get_GBps", figures->get_GBps.median()},
                     {"set_GBps", figures->set_GBps.median()},
                     {"bare_get_GBps", figures->bare_get_GBps.median()},
                     {"bare_set_GBps", figures->bare_set_GBps.median()},
                     {"bare_get_connections", figures->get_shape.connections},
                     {"bare_set_connections", figures->set_shape.connections}});
  }
  const auto lookup = measure_lookup(endpoint);
  if (!lookup) return fail(lookup.error());
  out << "existence of " << lookup_keys << " keys: " << std::setprecision(3) << lookup->ms.median()
      << " ms, p99 " << lookup->ms.quantile(.99) << " ms (a bare pipeline "
      << lookup->bare_ms.median() << " ms)\n";
  const auto down = measure_down();
  if (!down) return fail(down.error());
  out << "match of " << lookup_keys << " blocks that are kept here: " << std::setprecision(1)
      << down->without_us.median() << " us without Redis, " << down->down_us.median()
      << " us while it is down\n";
  const nlohmann::ordered_json line = {{"bench", "redis"},
                                       {"sizes", sizes},
                                       {"get_ratio", worst_get},
                                       {"set_ratio", worst_set},
                                       {"exists512_ms", lookup->ms.median()},
                                       {"bare_exists512_ms", lookup->bare_ms.median()},
                                       {"local_match_ratio_when_down", down->ratio()},
                                       {"debug_build", is_debug_build()}};
  out << line.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
