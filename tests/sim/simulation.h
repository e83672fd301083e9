// One run: clients that call a cache at random, what they know of it, and the world below it. Roles
// in a file each: simulation.cc (time, engines, lives), clients.cc, misuse.cc, operators.cc,
// remote.cc (the tier that other hosts share), checks.cc, profile.cc.
//
// The cache was broken on purpose, and the simulation said (100 seeds of 10,000 operations):
//  a check of device memory is skipped     wrong bytes although every use is checked
//  what is held is evicted                 a slot was handed out that somebody has
//  abandoned slots are freed at once       reserved slots are miscounted
//  the last copy of what others need goes  a hole although nothing was ever lost
//  a lease of an ended session is kept     invariant: reserved slots are miscounted
//  a failed load is told as a good one     invariant: holds of a slot are miscounted
//  the disk forgets what it acknowledged   what was durable is lost
//  the disk is not told of uses            the recency of a block is too old
//  what only Redis has is loaded below what is not here
//                                          a hole although nothing was ever lost
//  an eviction from disk is not carried out, or the disk's cap is doubled
//                                          a failure that nobody made
//  heads leave a tier before their tails, while another tier has them
//                                          a head was evicted from a tier that still has its tail
//  a drain is called done with more than a disk's queue to write
//                                          a block is not durable after the drain
//  a pin keeps nothing on disk, or in the device
//                                          a pinned block was evicted
//  a pin does not keep the last copy, without a disk
//                                          a block of a pinned prefix has left its last tier
//  a quota of the disk is not looked at    a tenant is over its quota
//  a dropped space stays on disk           a block was recovered that nobody wrote
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/shared_memory.h"
#include "storage/arena/slab_arena.h"
#include "storage/tiered_cache.h"
#include "tests/sim/promises.h"
#include "tests/sim/random.h"
#include "tests/sim/run_options.h"
#include "tests/sim/simulated_disk.h"
#include "tests/sim/universe.h"
#include "tests/storage/support/fake_remote.h"
#include "tests/storage/support/manual_accelerator.h"
#include "tests/storage/support/manual_clock.h"

namespace terrace::sim {

using storage::AcquiredBlock;
using storage::LeaseId;
using storage::SealOutcome;
using storage::SessionId;
using storage::SlotOffset;

constexpr std::uint64_t page_bytes = storage::slot_alignment_bytes;
constexpr std::size_t watched_tiers = 3;  // device, host, disk
constexpr std::int64_t tick_ns = 100'000'000;

// What is simulated: drawn from the seed.
struct Profile {
  std::size_t spaces = 1, blocks = 50;
  std::uint64_t device_pages = 16, host_pages = 0, slab_pages = 4;
  std::uint64_t disk_bytes = 0;  // 0: no disk
  bool large = false;
  bool store = false;  // a real one
  std::size_t directories = 1;
  std::uint64_t file_pages = 0;
  Codec codec = Codec::raw;
  double clean_low_fraction = 0.1, clean_fraction = 0.25;
  storage::WritePolicy host_write = storage::WritePolicy::on_evict;
  storage::WritePolicy disk_write = storage::WritePolicy::behind;
  std::uint64_t hour_bytes = 0, day_bytes = 0;  // of write-behind
  storage::DeviceVerify verify = storage::DeviceVerify::first_use;
  Faults faults;
  bool out_of_reach = false;  // the CPU cannot access device memory
  bool remote = false;        // a tier that other hosts share
  storage::WritePolicy redis_write = storage::WritePolicy::on_second_use;
  std::uint64_t pinned_bytes = 0;  // that pins may hold
  std::vector<storage::TenantQuota> tenants;
  std::size_t clients = 4;
  double fault_rate = 0.05;

  // Whether a drain writes all that is sealed: nothing was declined because it was used only once.
  bool drains_everything() const {
    for (const storage::TenantQuota& tenant : tenants)
      if (tenant.bytes[static_cast<std::size_t>(Tier::disk)] != storage::no_quota) return false;
    return disk_write == storage::WritePolicy::on_evict ||
           (disk_write == storage::WritePolicy::behind && hour_bytes == 0 && day_bytes == 0);
  }
  static Profile draw(Random& random, const RunOptions& options);
  std::string text() const;
};

class Simulation {
 public:
  explicit Simulation(const RunOptions& options);
  RunResult run();

 private:
  // What a lease believes to hold.
  struct Held {
    SlotOffset slot = 0;
    NodeId node = no_node;
    NodeId name = no_node;  // what it was reserved for
  };
  struct Lease {
    std::vector<Held> held, reserved;
    std::vector<std::uint64_t> waiting;  // acquisitions that have not called back
  };
  // An acquisition, as of when it was asked for.
  struct Asked {
    SessionId session = 0;
    LeaseId lease = 0;
    std::uint64_t acquisition = 0;
    std::uint64_t checked_since = 0;  // the acquisition whose checks may count for it
    std::int64_t served_ns = 0;
    std::uint64_t unix_ms = 0;
    bool waits = false;  // for what others compute
    bool warms = false;  // into the host tier, to hold nothing
  };
  struct Client {
    SessionId session = 0;
    bool abandoned = false;
    LeaseId next_lease = 1;
    std::map<LeaseId, Lease> leases;
  };
  struct Pinned {
    NodeId node = no_node;
    std::optional<Tier> tier;
    std::int64_t expires_unix_ms = 0;
    bool whole = false;
  };
  // A drop of a space that has not said that it is done.
  struct Dropping {
    unsigned under_way = 0;
    std::uint64_t last_acquisition = 0;  // that may still get what was there
  };
  // Which tier has which blocks, and which are pinned.
  struct Copies {
    std::array<std::uint64_t, watched_tiers> evictions{};
    std::unordered_map<NodeId, std::array<bool, tier_count>> tiers;
    std::unordered_map<NodeId, bool> pinned_to_device;  // false: pinned without
  };
  // A page of the device arena, as the clients know it.
  struct Page {
    SlotOffset slot = 0;
    NodeId node = no_node;
    std::uint32_t holders = 0;
    bool reserved = false;
    bool free() const { return holders == 0 && !reserved; }
  };
  // A slot whose bytes are not, or not for long, what was sealed.
  struct Mark {
    NodeId node = no_node;
    std::uint64_t acquisition = 0;  // the last one that began before
    bool from_seal = false;         // never was what its checksum said
  };

  bool failed() const { return !failure_.empty(); }
  void fail(const std::string& what);
  void require(bool holds, const char* what) {
    if (!holds) fail(what);
  }
  void note(std::uint64_t value);  // into the fingerprint
  bool may(Action action) const { return !options_.without[static_cast<std::size_t>(action)]; }

  // simulation.cc
  void start_life();
  void end_life(bool crash);
  void map_device();
  void attach_device();
  void count_life();
  void step();
  void act();
  void pass_time();
  void run_deadlines();
  void engines();
  void complete_something(bool healthy);
  void settle_everything();
  bool lives_end() { return !profile_.large || random_.chance(0.15); }
  void begin_drain();
  void finish();

  // clients.cc
  Client* any_client(bool abandoned_too = false);
  std::pair<LeaseId, Lease*> any_lease(Client& client);
  std::pair<LeaseId, Lease*> any_lease_with_reserved(Client& client);
  NodeId any_node() { return static_cast<NodeId>(random_.pick(universe_.size())); }
  storage::SpaceId id_of(std::uint32_t space) const { return space_ids_[space]; }
  std::size_t matched(NodeId node) const;  // leading blocks of the path to it
  std::span<std::byte> bytes_of(SlotOffset slot, NodeId node) const;
  bool holds(SlotOffset slot, NodeId node) const;
  void match();
  void check_partial(const Node& asked, const storage::MatchResult& result,
                     std::span<const Token> tokens);
  void acquire();
  void ask_for_partial(const Node& node, std::vector<NodeId>& nodes,
                       storage::AcquireOptions& options);
  void delivered(const Asked& asked, const std::vector<NodeId>& nodes,
                 const std::vector<AcquiredBlock>& blocks);
  void check_delivery(const Asked& asked, const AcquiredBlock& block, NodeId node);
  void act_in_callback(SessionId session, LeaseId lease);
  bool computed_by_others(NodeId node, const Client& client) const;
  void reserve();
  void seal();
  void release();
  void forget(Client& client, LeaseId lease);
  void leave();
  void end(SessionId session);
  void scribble();

  // operators.cc
  void pin();
  void unpin();
  bool fit(const std::map<BlockKey, Pinned>& pins) const;
  void forget_expired_pins();
  void find_pins_again(bool exactly);
  void check_pins();
  void drop_space();
  void evict_prefix();
  bool any_dropping() const;
  bool is_dropping(std::uint32_t space) const { return dropping_[space].under_way > 0; }
  void forget_drops();
  Copies copies();
  void check_evicted(const Copies& before);

  // misuse.cc
  void misuse();

  // remote.cc
  std::unique_ptr<storage::RemoteTier> open_remote();
  void close_remote(bool crash);
  // What other hosts do there, and the server by itself.
  void remote_world();
  void look_up(const Node& node);
  void complete_remote(bool healthy);
  // What must be answered by now is.
  void expire_remote();

  // pages
  std::size_t pages_of(NodeId node) const;
  void take_reserved(SlotOffset slot, std::size_t pages);
  void take_held(SlotOffset slot, NodeId node);
  void drop(const Held& held, bool reserved);

  // checks.cc
  void check(bool thorough);
  void check_counters();
  void check_quotas(const storage::CacheStats& stats);
  void check_listing();
  void check_held_bytes();
  void check_nothing_leaks();
  void check_everything_can_be_had();

  const RunOptions options_;
  Random random_;
  const Profile profile_;
  const Universe universe_;
  const std::shared_ptr<storage::ManualClock> clock_ = std::make_shared<storage::ManualClock>();
  storage::ManualAccelerator accelerator_;
  Promises promises_;
  std::unique_ptr<SimulatedDisk> disk_;
  std::unique_ptr<storage::TieredCache> cache_;
  SharedMapping device_;
  std::vector<storage::SpaceId> space_ids_;

  std::map<SessionId, std::unique_ptr<Client>> clients_;
  std::vector<std::unique_ptr<Client>> dead_;  // until the end of the step
  std::vector<Page> pages_;
  std::unordered_map<SlotOffset, Mark> marks_;
  // Of copies in the device tier, which may move to another slot.
  std::unordered_map<NodeId, SessionId> sealers_;
  storage::FakeRemoteContents in_redis_;
  storage::FakeRemote* remote_ = nullptr;  // the cache's
  std::uint64_t remote_stalls_until_ = 0;
  std::uint64_t looks_ = 0, told_ = 0, life_ = 0;
  std::vector<bool> put_;              // by node: was sealed as what it is, and not dropped since
  std::vector<bool> put_before_drop_;  // of a drop that is under way
  std::vector<Dropping> dropping_;     // by space
  std::vector<NodeId> evicting_;       // heads of the prefixes
  std::map<BlockKey, Pinned> pins_;

  std::uint64_t step_ = 0, acquisitions_ = 0;
  std::int64_t served_ns_ = 0, ticked_ns_ = 0;
  std::uint64_t disk_stalls_until_ = 0, copies_stall_until_ = 0, disk_fails_until_ = 0;
  std::uint64_t life_ends_at_ = 0;     // step; 0 while no drain is under way
  std::uint64_t device_comes_at_ = 0;  // step; 0: it is there
  bool drained_ = false, pins_are_known_ = false;
  bool in_callback_ = false, sealing_ = false;
  std::vector<std::function<void()>> told_while_sealing_;

  Tally tally_;
  std::uint64_t fingerprint_ = 0xcbf29ce484222325;
  std::string failure_;
};

}  // namespace terrace::sim
