#include "tests/sim/simulation.h"

#include <algorithm>
#include <set>

namespace terrace::sim {

namespace {
// Every so many steps what is evicted is looked at: it takes two listings.
constexpr std::uint64_t eviction_watch_steps = 8;
}  // namespace

Simulation::Simulation(const RunOptions& options)
    : options_(options),
      random_(options.seed * 0x9e3779b97f4a7c15 + 1),
      profile_(Profile::draw(random_, options)),
      universe_(random_, profile_.spaces, profile_.blocks),
      promises_([this](const std::string& what) { fail(what); }, [this] { return served_ns_; }),
      put_(universe_.size(), false),
      put_before_drop_(universe_.size(), false),
      dropping_(universe_.spaces().size()) {
  accelerator_.set_host_accessible(!profile_.out_of_reach);
  if (profile_.store) {
    disk_ = make_stored_simulated_disk({profile_.disk_bytes, profile_.file_pages * page_bytes,
                                        profile_.directories, profile_.codec},
                                       clock_, random_.next(),
                                       [this](const std::string& what) { fail(what); });
  } else if (profile_.disk_bytes > 0) {
    disk_ = make_fake_simulated_disk(profile_.disk_bytes, *clock_);
  }
  const Faults& faults = profile_.faults;
  if (faults.crashes || faults.disk_fails || faults.disk_full || faults.index_fails)
    promises_.forgive_rebuilds();
  if (profile_.directories > 1) promises_.many_directories();
  if (faults.index_fails) promises_.forgive_recency();
}

void Simulation::fail(const std::string& what) {
  if (failure_.empty()) failure_ = "operation " + std::to_string(step_) + ": " + what;
}

void Simulation::note(std::uint64_t value) {
  fingerprint_ = (fingerprint_ ^ value) * 0x100000001b3;
}

RunResult Simulation::run() {
  start_life();
  for (step_ = 1; step_ <= options_.operations && !failed(); ++step_) {
    step();
    if (step_ % options_.check_every == 0 && !failed())
      check(step_ % (8 * options_.check_every) == 0);
  }
  step_ = std::min(step_, options_.operations);
  tally_.operations = step_;
  if (!failed() && cache_) finish();
  if (cache_) count_life();
  cache_.reset();
  return {failure_, tally_, fingerprint_, profile_.text()};
}

void Simulation::start_life() {
  storage::CacheOptions options;
  // A new daemon may have to wait for the memory of an old one.
  const bool device_comes_later = random_.chance(0.1);
  if (!device_comes_later) options.device_capacity_bytes = profile_.device_pages * page_bytes;
  options.host_capacity_bytes = profile_.host_pages * page_bytes;
  options.slab_bytes = profile_.slab_pages * page_bytes;
  options.clean_fraction = profile_.clean_fraction;
  options.clean_low_fraction = profile_.clean_low_fraction;
  options.host_write = profile_.host_write;
  options.disk_write = profile_.disk_write;
  options.write_behind_hour_bytes = profile_.hour_bytes;
  options.write_behind_day_bytes = profile_.day_bytes;
  options.redis_write = profile_.redis_write;
  options.device_verify = profile_.verify;
  options.pin_capacity_bytes = profile_.pinned_bytes;
  options.tenants = profile_.tenants;
  std::unique_ptr<storage::DiskTier> disk;
  if (disk_) {
    disk = disk_->open();
    if (!disk) return;
    disk = promises_.watch(std::move(disk));
  }
  auto cache =
      storage::TieredCache::create(options, accelerator_, std::move(disk), *clock_, open_remote());
  if (!cache) return fail(cache.error().to_string());
  cache_ = std::move(*cache);
  find_pins_again(pins_are_known_);
  pins_are_known_ = false;
  if (device_comes_later) {
    device_comes_at_ = step_ + random_.between(1, 300);
    require(cache_->device_arena_fd() < 0, "a device tier that nobody asked for");
  } else {
    map_device();
  }
  // Every block that the cache says it recovered can be matched: nothing hangs in the air.
  check_listing();
  tally_.recovered_blocks += cache_->stats().tiers[static_cast<std::size_t>(Tier::disk)].blocks;
  require(cache_->stats().holes == 0, "holes after a start");
  space_ids_.assign(universe_.spaces().size(), 0);
  for (std::size_t i = 0; i < space_ids_.size(); ++i) {
    const auto id = cache_->open_space(universe_.spaces()[i].descriptor);
    if (!id) return fail(id.error().to_string());
    space_ids_[i] = *id;
  }
  ticked_ns_ = served_ns_;
}

void Simulation::map_device() {
  auto mapping = SharedMapping::map(cache_->device_arena_fd(), cache_->device_arena_bytes(),
                                    SharedMapping::Access::read_write);
  if (!mapping) return fail(mapping.error().to_string());
  device_ = std::move(*mapping);
  pages_.assign(profile_.device_pages, {});
}

void Simulation::attach_device() {
  device_comes_at_ = 0;
  auto memory = accelerator_.allocate(profile_.device_pages * page_bytes);
  if (!memory) return fail(memory.error().to_string());
  const Status attached = cache_->attach_device(std::move(*memory));
  if (!attached.ok()) return fail(attached.to_string());
  map_device();
}

void Simulation::count_life() {
  for (const storage::TierStats& tier : cache_->stats().tiers) {
    tally_.corruptions += tier.corruptions;
    tally_.failures += tier.failures;
    tally_.evictions += tier.evictions;
  }
  const storage::CacheStats stats = cache_->stats();
  tally_.declined_loads += stats.declined_loads;
  tally_.awaited_blocks += stats.awaited_blocks;
  tally_.expired_waits += stats.expired_waits;
  if (!stats.remote) return;
  tally_.lookups += stats.remote->lookups;
  tally_.late_lookups += stats.remote->late_lookups;
  tally_.cut_loads += stats.remote->cut_loads;
}

void Simulation::end_life(bool crash) {
  count_life();
  if (disk_) disk_->ending(crash, random_);
  close_remote(crash);
  cache_.reset();
  device_ = {};
  if (disk_) disk_->ended(crash, random_);
  promises_.life_ended(crash);
  forget_drops();
  // Whoever ends in the middle may leave a part of what a prefix needs in memory.
  pins_are_known_ = !crash && disk_ && !profile_.faults.lose_blocks();
  if (profile_.faults.index_lost && random_.chance(0.2)) {
    disk_->lose_index();
    promises_.index_lost();
    ++tally_.lost_indices;
  }
  for (auto& [session, client] : clients_) dead_.push_back(std::move(client));
  clients_.clear();
  marks_.clear();
  sealers_.clear();
  life_ends_at_ = device_comes_at_ = 0;
  drained_ = false;
  disk_stalls_until_ = copies_stall_until_ = disk_fails_until_ = 0;
  ++(crash ? tally_.crashes : tally_.restarts);
}

void Simulation::step() {
  if (device_comes_at_ != 0 && step_ >= device_comes_at_) attach_device();
  const bool watch_evictions = step_ % eviction_watch_steps == 0 &&
                               !profile_.faults.lose_blocks() && !any_dropping() &&
                               evicting_.empty();
  const std::uint64_t lives = tally_.restarts + tally_.crashes;
  const Copies before = watch_evictions ? copies() : Copies{};
  act();
  remote_world();
  pass_time();
  engines();
  dead_.clear();
  const bool same_life = lives == tally_.restarts + tally_.crashes;
  if (watch_evictions && same_life && !any_dropping() && evicting_.empty() && !failed())
    check_evicted(before);
  if (life_ends_at_ != 0 && !failed() && (drained_ || step_ >= life_ends_at_)) {
    tally_.drains += drained_;
    end_life(false);
    start_life();
  }
}

void Simulation::act() {
  struct Weight {
    Action action;
    unsigned weight;
    void (Simulation::*call)();
  };
  static constexpr Weight weights[] = {
      {Action::match, 72, &Simulation::match},       {Action::acquire, 200, &Simulation::acquire},
      {Action::reserve, 170, &Simulation::reserve},  {Action::seal, 240, &Simulation::seal},
      {Action::release, 190, &Simulation::release},  {Action::leave, 20, &Simulation::leave},
      {Action::scribble, 20, &Simulation::scribble}, {Action::misuse, 40, &Simulation::misuse},
  };
  constexpr std::size_t total = 1000;
  std::size_t drawn = random_.pick(total);
  for (const Weight& weight : weights) {
    if (drawn >= weight.weight) {
      drawn -= weight.weight;
      continue;
    }
    if (may(weight.action)) (this->*weight.call)();
    return;
  }
  // What is left of the thousand: the world.
  if (drawn < 15) {
    if (!profile_.faults.disk_rots || !disk_ || !may(Action::rot)) return;
    for (const BlockKey& broken : disk_->rot(random_)) {
      promises_.broke(broken);
      ++tally_.rotten_records;
    }
  } else if (drawn < 20) {
    if (!may(Action::jump)) return;
    // Not served: the machine slept. The clock of promises stands still.
    clock_->advance_ms(static_cast<std::int64_t>(random_.between(200, 90'000)));
    if (disk_) disk_->time_passed();
    run_deadlines();
    cache_->tick();
  } else if (drawn < 22) {
    if (may(Action::restart) && lives_end()) begin_drain();
  } else if (drawn < 24) {
    if (!profile_.faults.crashes || !may(Action::crash) || !lives_end()) return;
    end_life(true);
    start_life();
  } else if (drawn < 28) {
    disk_stalls_until_ = step_ + random_.pick(60);
  } else if (drawn < 32) {
    copies_stall_until_ = step_ + random_.pick(60);
  } else if (drawn < 34) {
    if (profile_.faults.disk_fails) disk_fails_until_ = step_ + random_.pick(200);
  } else if (drawn < 44) {
    // What Redis has comes back by itself, and is no part of a pinned prefix for sure.
    if (may(Action::pin) && !remote_) pin();
  } else if (drawn < 46) {
    if (may(Action::unpin)) unpin();
  } else {
    if (may(Action::drop) && !remote_ && random_.chance(0.3)) drop_space();
    if (may(Action::evict) && random_.chance(0.4)) evict_prefix();
  }
}

void Simulation::begin_drain() {
  if (life_ends_at_ != 0) return;
  life_ends_at_ = step_ + random_.between(1, profile_.large ? 1500 : 150);
  std::set<BlockKey> kept;
  for (const auto& block : cache_->list({}, SIZE_MAX).blocks)
    if (block.tiers[0] || block.tiers[1] || block.tiers[2]) kept.insert(block.key);
  cache_->drain([this, kept = std::move(kept)] {
    require(!drained_, "a drain was done twice");
    drained_ = true;
    // Whatever a match can reach is durable now, unless the disk has no room for all or it broke.
    if (!profile_.faults.lose_blocks() && disk_ && profile_.drains_everything()) {
      std::uint64_t all_bytes = 0;
      for (std::size_t i = 0; i < universe_.size(); ++i)
        all_bytes += universe_.node(static_cast<NodeId>(i)).contents.size() + 2 * page_bytes;
      // Room that is free in pieces counts less.
      const storage::CacheStats stats = cache_->stats();
      if (all_bytes * (profile_.store ? 2 : 1) >
          stats.tiers[static_cast<std::size_t>(Tier::disk)].capacity_bytes)
        return;
      if (any_dropping() || !evicting_.empty()) return;
      // What came out of Redis meanwhile is there.
      for (const auto& block : cache_->list({}, SIZE_MAX).blocks)
        if (kept.contains(block.key))
          require(promises_.durable(block.key), "a block is not durable after the drain");
    }
  });
}

void Simulation::pass_time() {
  const auto ms = static_cast<std::int64_t>(random_.pick(12));
  clock_->advance_ms(ms);
  served_ns_ += ms * 1'000'000;
  if (disk_) disk_->time_passed();
  run_deadlines();
  if (served_ns_ - ticked_ns_ < tick_ns) return;
  ticked_ns_ = served_ns_;
  cache_->tick();
}

void Simulation::run_deadlines() {
  expire_remote();
  const auto due = [this] {
    const auto next_ns = cache_->next_deadline_ns();
    return next_ns && *next_ns <= clock_->monotonic_ns();
  };
  if (!due()) return;
  cache_->run_deadlines();
  // Who is told may ask for something whose limit is over already: that is told in the next turn.
  if (due()) cache_->run_deadlines();
  require(!due(), "a wait goes on past its limit");
}

void Simulation::complete_something(bool healthy) {
  if (remote_ && !remote_->under_way().empty() && (healthy || random_.chance(0.4)))
    return complete_remote(healthy);
  const bool disk = disk_ && disk_->under_way() && (healthy || step_ >= disk_stalls_until_);
  const std::size_t copies = healthy || step_ >= copies_stall_until_ ? accelerator_.under_way() : 0;
  if (disk && (copies == 0 || random_.chance(0.5))) {
    DiskTrouble trouble;
    if (!healthy && profile_.faults.disk_fails)
      trouble.fails = step_ < disk_fails_until_ ? 1 : profile_.fault_rate;
    if (!healthy && profile_.faults.disk_full) trouble.full = profile_.fault_rate;
    if (!healthy && profile_.faults.index_fails) trouble.index = profile_.fault_rate;
    disk_->step(random_, trouble);
  } else if (copies > 0) {
    using Fate = storage::ManualAccelerator::Fate;
    Fate fate = Fate::good;
    if (!healthy && profile_.faults.copies_fail && random_.chance(profile_.fault_rate))
      fate = Fate::fails;
    if (!healthy && profile_.faults.copies_flip && random_.chance(profile_.fault_rate))
      fate = Fate::flips_a_bit;
    accelerator_.complete(random_.pick(copies), fate);
  }
}

void Simulation::engines() {
  for (std::size_t i = random_.pick(5); i > 0; --i) complete_something(false);
  if (random_.chance(0.8)) cache_->run_completions();
}

void Simulation::settle_everything() {
  // More would be work that makes itself.
  constexpr int most_completions = 50'000;
  int completions = 0;
  // Past every wait between two attempts.
  for (int round = 0; round < 40; ++round) {
    while ((disk_ && disk_->under_way()) || accelerator_.under_way() > 0 ||
           (remote_ && !remote_->under_way().empty())) {
      if (++completions > most_completions) return fail("the engines never come to rest");
      complete_something(true);
      cache_->run_completions();
    }
    clock_->advance_ms(1000);
    if (disk_) disk_->time_passed();
    run_deadlines();
    cache_->tick();
    cache_->run_completions();
  }
}

void Simulation::finish() {
  if (device_comes_at_ != 0) attach_device();
  settle_everything();
  require(told_ == looks_, "a question was never answered");
  for (const auto& [session, client] : clients_)
    for (const auto& [id, lease] : client->leases)
      require(lease.waiting.empty(), "an acquisition was never answered");
  if (!failed()) check(true);
  while (!clients_.empty()) end(clients_.begin()->first);
  forget_expired_pins();
  while (!pins_.empty()) unpin();
  settle_everything();
  require(!any_dropping() && evicting_.empty(), "a drop was never done");
  if (!failed()) check(true);
  if (!failed()) check_nothing_leaks();
  if (!failed()) check_everything_can_be_had();
}

RunResult run(const RunOptions& options) { return Simulation(options).run(); }

}  // namespace terrace::sim
