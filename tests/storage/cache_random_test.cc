// Thousands of random operations on a small cache, with engines that complete in any order and
// fail, against one rule: what a get returns was once put under that key, or it is a miss. Every
// invariant is checked after every step.
#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

constexpr int operations = 2000;
constexpr std::size_t prompt_blocks = 6;
constexpr int heads = 4, tails = 3;

struct Faults {
  bool failures = false;    // requests fail, and are asked for again
  bool operators = false;   // pins, drops, and somebody who needs larger slots
  bool corruption = false;  // copies and records rot; workers write after they sealed
};

class CacheRandom : public CacheFixture {
 protected:
  struct Client {
    SessionId session = 0;
    LeaseId next_lease = 1;
    // What each lease believes to hold: slot -> key. The bytes must not change while it does.
    std::map<LeaseId, std::map<SlotOffset, BlockKey>> held;
    std::map<LeaseId, std::vector<std::pair<SlotOffset, std::size_t>>> reserved;  // block index
    std::map<LeaseId, Prompt> prompts;
    bool abandoned = false;
  };

  void TearDown() override { EXPECT_GT(awaited_, 0u) << "nobody ever got what they waited for"; }

  // As `holds`, without making the contents anew each time: it is asked for every held slot after
  // every step.
  bool still_holds(SlotOffset slot, const BlockKey& key) {
    auto& expected = expected_[key];
    if (expected.empty()) expected = contents(key);
    return std::memcmp(slot_bytes(slot).data(), expected.data(), expected.size()) == 0;
  }

  std::size_t pick(std::size_t below) { return static_cast<std::size_t>(random_() % below); }
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }

  Prompt any_prompt() {
    return prompt(static_cast<int>(pick(heads)), 1 + pick(prompt_blocks),
                  static_cast<int>(pick(tails)), pick(prompt_blocks));
  }

  Client& any_client() {
    if (clients_.size() < 4 || chance(0.02)) {
      clients_.push_back(std::make_unique<Client>());
      clients_.back()->session = cache_->open_session();
    }
    return *clients_[pick(clients_.size())];
  }

  void use(Client& client) {
    if (client.abandoned) return;
    const Prompt p = any_prompt();
    const LeaseId lease = client.next_lease++;
    client.held[lease];
    client.prompts[lease] = p;
    AcquireOptions options;
    if (chance(0.2)) options.prefill_tokens_per_second = 100;
    if (chance(0.5)) options.wait_ms = static_cast<std::uint32_t>(1 + pick(5000));
    if (chance(0.3))
      options.remote_deadline_ns = clock_.monotonic_ns() + static_cast<int>(pick(1000)) * 100'000;
    if (remote_ && chance(0.7)) {
      ++looks_;
      cache_->look_up(space_, p.keys, p.tokens, clock_.monotonic_ns() + 2'000'000,
                      [this] { ++told_; });
      if (chance(0.5)) engines();
    }
    cache_->acquire(client.session, lease, space_, p.keys, options,
                    [this, &client, lease, keys = p.keys](std::vector<AcquiredBlock> blocks) {
                      ASSERT_TRUE(client.held.contains(lease)) << "a callback of a released lease";
                      ASSERT_LE(blocks.size(), keys.size());
                      for (std::size_t i = 0; i < blocks.size(); ++i) {
                        ASSERT_TRUE(once_put_.contains(keys[i]));
                        // Rot of a device copy that was checked before is nobody's promise.
                        if (!rotten_.contains(blocks[i].slot)) {
                          ASSERT_TRUE(holds(blocks[i].slot, keys[i])) << "wrong bytes";
                        }
                        client.held.at(lease)[blocks[i].slot] = keys[i];
                        ++gets_;
                      }
                    });
  }

  void compute(Client& client) {
    if (client.abandoned || client.prompts.empty()) return;
    auto it = client.prompts.begin();
    std::advance(it, pick(client.prompts.size()));
    const auto& [lease, p] = *it;
    const std::size_t from = cache_->match(space_, p.keys, p.tokens).matched_blocks;
    if (from == p.keys.size()) return;
    const auto rest = std::span(p.keys).subspan(from);
    const auto claimed = chance(0.5)
                             ? cache_->claim(client.session, lease, space_, rest, pick(2))
                             : cache_->reserve(client.session, lease, space_, rest, pick(2));
    const auto slots = claimed.value_or(std::vector<SlotOffset>());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      for (const auto& other : clients_)
        for (const auto& [id, held] : other->held)
          ASSERT_FALSE(held.contains(slots[i])) << "a held slot was handed out";
      rotten_.erase(slots[i]);
      std::ranges::fill(slot_bytes(slots[i]), std::byte{0x77});
      if (from + i < p.keys.size()) client.reserved[lease].emplace_back(slots[i], from + i);
    }
  }

  void seal(Client& client) {
    if (client.abandoned || client.reserved.empty()) return;
    auto it = client.reserved.begin();
    std::advance(it, pick(client.reserved.size()));
    const LeaseId lease = it->first;
    const Prompt p = client.prompts.at(lease);
    const std::size_t count = 1 + pick(it->second.size());
    for (std::size_t i = 0; i < count; ++i) {
      const auto [slot, index] = it->second[i];
      const BlockKey key = p.keys[index];
      std::ranges::copy(contents(key), slot_bytes(slot).begin());
      const bool wrong = faults_.corruption && chance(0.05);
      if (wrong) {
        slot_bytes(slot)[pick(test_block_bytes)] ^= std::byte{0x10};
        rotten_.insert(slot);
      }
      // Who waits for it may be told before seal() returns.
      const bool first = once_put_.insert(key).second;
      const SealOutcome outcome = seal_one(client.session, lease, slot, p, index)[0];
      if (outcome == SealOutcome::sealed) {
        if (!wrong) client.held[lease][slot] = key;
      } else if (first) {
        once_put_.erase(key);
      }
    }
    it->second.erase(it->second.begin(), it->second.begin() + static_cast<std::ptrdiff_t>(count));
    if (it->second.empty()) client.reserved.erase(it);
  }

  void forget(Client& client, LeaseId lease) {
    client.held.erase(lease);
    client.prompts.erase(lease);
    client.reserved.erase(lease);
  }

  void release(Client& client) {
    if (client.abandoned || client.held.empty()) return;
    auto it = client.held.begin();
    std::advance(it, pick(client.held.size()));
    const LeaseId lease = it->first;
    forget(client, lease);
    cache_->release(client.session, lease);
  }

  void leave(std::size_t which) {
    Client& client = *clients_[which];
    if (!client.abandoned && chance(0.5)) {
      cache_->abandon_session(client.session);
      client.abandoned = true;
      return;
    }
    client.held.clear();
    const SessionId session = client.session;
    cache_->end_session(session);
    clients_.erase(clients_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  void engines() {
    for (std::size_t i = pick(6); i > 0; --i) {
      const std::size_t requests = disk_ ? disk_->under_way().size() : 0;
      const std::size_t copies = accelerator_.under_way();
      const std::size_t remote = remote_ ? remote_->under_way().size() : 0;
      if (requests + copies + remote == 0) break;
      const std::size_t which = pick(requests + copies + remote);
      if (which >= requests + copies) {
        Status failure;
        if (faults_.failures && chance(0.1))
          failure = Status(chance(0.3) ? StatusCode::no_space : StatusCode::unavailable, "told to");
        remote_->complete(which - requests - copies, failure);
      } else if (which < requests) {
        Status failure;
        if (faults_.failures && chance(0.1))
          failure = Status(chance(0.3) ? StatusCode::no_space : StatusCode::io_error, "told to");
        disk_->complete(which, failure);
      } else {
        auto fate = ManualAccelerator::Fate::good;
        if (faults_.failures && chance(0.1)) fate = ManualAccelerator::Fate::fails;
        if (faults_.corruption && chance(0.03)) fate = ManualAccelerator::Fate::flips_a_bit;
        accelerator_.complete(which - requests, fate);
      }
      clock_.advance_ms(static_cast<std::int64_t>(pick(3)));
    }
    cache_->run_completions();
  }

  void rot() {
    if (on_disk_.records.empty()) return;
    auto it = on_disk_.records.begin();
    std::advance(it, pick(on_disk_.records.size()));
    it->second.payload[pick(test_block_bytes)] ^= std::byte{0x20};
  }

  // What others do in Redis, and the server itself.
  void remote_world() {
    if (!remote_) return;
    const Prompt p = any_prompt();
    const std::size_t at = pick(p.keys.size());
    const std::size_t what = pick(10);
    if (what < 6) {
      for (std::size_t i = 0; i <= at; ++i) {
        const auto bytes = contents(p.keys[i]);
        in_redis_.values[p.keys[i]] = {digest_, p.parent(i), p.block(i), bytes,
                                       payload_checksum(bytes)};
        once_put_.insert(p.keys[i]);
      }
    } else if (what < 8 && faults_.failures) {
      in_redis_.values.erase(p.keys[at]);
    } else if (what < 9 && faults_.corruption) {
      if (const auto found = in_redis_.values.find(p.keys[at]); found != in_redis_.values.end())
        found->second.payload[pick(test_block_bytes)] ^= std::byte{4};
    } else if (faults_.failures) {
      remote_->set_breaker(static_cast<Breaker>(pick(3)));
    }
  }

  void operate() {
    const Prompt p = any_prompt();
    const std::size_t what = pick(40);
    if (what < 12) {
      PinOptions options;
      if (chance(0.3)) options.tier = Tier::device;
      if (chance(0.5))
        options.expires_unix_ms = clock_.unix_ms() + 1 + static_cast<int>(pick(3000));
      (void)cache_->pin(p.keys[pick(p.keys.size())], options);
    } else if (what < 20) {
      const auto pins = cache_->pins();
      if (!pins.empty()) (void)cache_->unpin(pins[pick(pins.size())].key);
    } else if (what < 39) {
      if (large_session_ == 0) large_session_ = cache_->open_session();
      const LeaseId lease = 1 + pick(3);
      cache_->release(large_session_, lease);
      for (const SlotOffset slot :
           cache_->reserve(large_session_, lease, large_, {}, 1 + pick(2))) {
        std::ranges::fill(slot_bytes(slot, large_bytes), std::byte{0x55});
        for (std::uint64_t at = slot; at < slot + large_bytes; at += test_block_bytes) {
          rotten_.erase(at);
          for (const auto& client : clients_)
            for (const auto& [id, held] : client->held)
              ASSERT_FALSE(held.contains(at)) << "a held slot was handed out";
        }
      }
    } else {
      ++drops_under_way_;
      cache_->drop_space(digest_, [this](const Status&) { --drops_under_way_; });
    }
  }

  void start_both(const Sizes& sizes) {
    start(sizes);
    large_session_ = 0;
    drops_under_way_ = 0;
    if (faults_.operators) large_ = *cache_->open_space(descriptor("large", large_bytes));
  }

  void check_all() {
    check();
    // What comes from Redis comes in any order.
    const bool on_its_way = remote_ && !remote_->under_way().empty();
    if (!faults_.failures && !faults_.corruption && drops_under_way_ == 0 && !on_its_way) {
      ASSERT_EQ(cache_->stats().holes, 0u);
    }
    ASSERT_LE(on_disk_.used_bytes(), on_disk_.capacity_bytes);
    for (const auto& client : clients_)
      for (const auto& [lease, held] : client->held)
        for (const auto& [slot, key] : held)
          if (!rotten_.contains(slot)) {
            ASSERT_TRUE(still_holds(slot, key)) << "held bytes changed";
          }
  }

  void run(std::uint64_t seed, Sizes sizes, const Faults& faults) {
    sizes.eviction = seed % 2 ? EvictionOrder::reuse_index : EvictionOrder::lru;
    SCOPED_TRACE("seed " + std::to_string(seed));
    random_.seed(seed);
    faults_ = faults;
    clients_.clear();
    once_put_.clear();
    rotten_.clear();
    on_disk_ = {};
    in_redis_ = {};
    gets_ = 0;
    looks_ = told_ = 0;
    start_both(sizes);
    for (int step = 0; step < operations; ++step) {
      Client& client = any_client();
      const std::size_t what = pick(100);
      if (what < 20) {
        use(client);
      } else if (what < 40) {
        compute(client);
      } else if (what < 60) {
        seal(client);
      } else if (what < 72) {
        release(client);
      } else if (what < 74) {
        leave(pick(clients_.size()));
      } else if (what < 75) {
        if (faults_.corruption) rot();
        if (faults_.operators) operate();
      } else if (what < 78) {
        clock_.advance_ms(static_cast<std::int64_t>(pick(100)));
        cache_->run_deadlines();
      } else if (what < 80) {
        tick(static_cast<std::int64_t>(pick(2000)));
      } else {
        engines();
      }
      if (remote_ && chance(0.1)) remote_world();
      check_all();
      if (HasFatalFailure()) return;
      if (step % 500 == 499) {  // a restart, at any moment
        awaited_ += cache_->stats().awaited_blocks;
        from_redis_ += stats(Tier::redis).hits;
        clients_.clear();
        told_ = looks_;
        rotten_.clear();
        start_both(sizes);
        check_all();
      }
    }
    ASSERT_GT(gets_, 50u);
    awaited_ += cache_->stats().awaited_blocks;
    from_redis_ += stats(Tier::redis).hits;
    if (remote_) remote_->set_breaker(Breaker::closed);
    for (int i = 0; i < 20; ++i) {
      finish_everything();
      tick(60'000);
    }
    check_all();
    EXPECT_EQ(told_, looks_) << "a question was never answered";
    // Every value there was read where it lay, and is what it says.
    if (!faults_.corruption) {
      for (const auto& [key, value] : in_redis_.values) {
        EXPECT_TRUE(value.payload == contents(key));
      }
    }
    // Hashing every block is too much for every step.
    for (const BlockInfo& block : cache_->list({}, SIZE_MAX).blocks)
      EXPECT_EQ(derive_block_key(block.parent, block.tokens), block.key);
    // Nothing leaks: when everybody is gone, all that is in use holds a block.
    for (const auto& client : clients_) cache_->end_session(client->session);
    clients_.clear();
    if (large_session_ != 0) cache_->end_session(large_session_);
    finish_everything();
    check_all();
    const CacheStats stats = cache_->stats();
    EXPECT_EQ(stats.reserved_slots + stats.quarantined_slots + stats.pending_blocks, 0u);
    EXPECT_EQ(stats.tiers[0].used_bytes, stats.tiers[0].blocks * test_block_bytes);
    EXPECT_EQ(stats.tiers[1].used_bytes, stats.tiers[1].blocks * test_block_bytes);
  }

  std::mt19937_64 random_;
  std::map<BlockKey, std::vector<std::byte>> expected_;
  Faults faults_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::set<BlockKey> once_put_;
  std::set<SlotOffset> rotten_;
  std::size_t gets_ = 0, awaited_ = 0, from_redis_ = 0;
  std::size_t looks_ = 0, told_ = 0;
  static constexpr std::uint64_t large_bytes = 3 * test_block_bytes;
  SpaceId large_ = 0;
  SessionId large_session_ = 0;
  int drops_under_way_ = 0;
};

TEST_F(CacheRandom, DeviceAndDisk) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    run(seed, {.device_blocks = 20, .disk_blocks = 30}, {});
}

TEST_F(CacheRandom, DeviceHostAndDisk) {
  for (std::uint64_t seed = 11; seed <= 15; ++seed)
    run(seed, {.device_blocks = 16, .host_blocks = 12, .disk_blocks = 30}, {});
}

TEST_F(CacheRandom, DeviceOnlyAndDeviceWithHost) {
  for (std::uint64_t seed = 21; seed <= 23; ++seed) {
    run(seed, {.device_blocks = 24, .disk_blocks = 0}, {});
    run(seed, {.device_blocks = 16, .host_blocks = 16, .disk_blocks = 0}, {});
  }
}

TEST_F(CacheRandom, PinsDropsQuotasPoliciesAndASecondSize) {
  for (std::uint64_t seed = 61; seed <= 72; ++seed) {
    Sizes sizes{.device_blocks = 20,
                .host_blocks = seed % 2 ? 12u : 0u,
                .disk_blocks = 30,
                .clean_low_fraction = 0.1};
    sizes.disk_write = static_cast<WritePolicy>(seed % 3);
    sizes.host_write = static_cast<WritePolicy>(seed / 2 % 3);
    sizes.hour_writes = seed % 4 == 0 ? 40 : 0;
    sizes.pinned_blocks = 8;
    if (seed > 66)
      sizes.tenants = {
          {"*", {16 * test_block_bytes, 8 * test_block_bytes, 12 * 2 * test_block_bytes}},
          {"nobody", {}}};
    run(seed, sizes, {.failures = seed % 5 == 0, .operators = true, .corruption = seed % 6 == 0});
  }
}

TEST_F(CacheRandom, ATierThatOthersShare) {
  for (std::uint64_t seed = 81; seed <= 98; ++seed) {
    Sizes sizes{.device_blocks = 16,
                .host_blocks = seed % 3 == 0 ? 12u : 0u,
                .disk_blocks = seed % 4 == 0 ? 0u : 25u,
                .host_accessible = seed % 6 != 0};
    sizes.remote = true;
    sizes.redis_write = static_cast<WritePolicy>(seed % 3);
    sizes.disk_write = static_cast<WritePolicy>(seed / 2 % 3);
    sizes.verify = seed > 94 ? DeviceVerify::always : DeviceVerify::first_use;
    run(seed, sizes, {.failures = seed > 86, .operators = seed % 5 == 0, .corruption = seed > 94});
  }
  EXPECT_GT(from_redis_, 100u);
}

TEST_F(CacheRandom, EnginesThatFail) {
  for (std::uint64_t seed = 31; seed <= 35; ++seed)
    run(seed, {.device_blocks = 16, .host_blocks = seed % 2 ? 12u : 0u, .disk_blocks = 25},
        {.failures = true});
}

TEST_F(CacheRandom, EverythingRots) {
  for (std::uint64_t seed = 41; seed <= 45; ++seed)
    run(seed,
        {.device_blocks = 16,
         .host_blocks = seed % 2 ? 12u : 0u,
         .disk_blocks = 25,
         .verify = DeviceVerify::always},
        {.failures = true, .corruption = true});
}

// A GPU's memory: everything to and from the disk is staged.
TEST_F(CacheRandom, DeviceMemoryOutOfTheCpusReach) {
  for (std::uint64_t seed = 51; seed <= 56; ++seed)
    run(seed,
        {.device_blocks = 16,
         .host_blocks = seed % 2 ? 12u : 0u,
         .disk_blocks = 25,
         .verify = seed < 54 ? DeviceVerify::first_use : DeviceVerify::always,
         .host_accessible = false},
        {.failures = seed % 3 == 0, .corruption = seed >= 54});
}

}  // namespace
}  // namespace terrace::storage
