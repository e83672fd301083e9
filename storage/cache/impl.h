// The inside of TieredCache. One class, since every decision needs the same few tables, with its
// roles in a file each: match.cc, leases.cc, pins.cc, acquire.cc, single_flight.cc, load.cc,
// seal.cc, evict.cc, evict_prefix.cc, write_behind.cc, demote.cc, remote_lookup.cc, remote_load.cc,
// remote_write.cc, transfer.cc, block_reads.cc, import.cc, age.cc, recover.cc, drain.cc, report.cc,
// prefixes.cc, completions.cc, invariants.cc.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/record.h"
#include "storage/cache/arena_tier.h"
#include "storage/cache/flights.h"
#include "storage/cache/limits.h"
#include "storage/cache/load_rate.h"
#include "storage/cache/miss_notes.h"
#include "storage/cache/pin_table.h"
#include "storage/cache/recent_keys.h"
#include "storage/cache/tenants.h"
#include "storage/cache/work.h"
#include "storage/cache/write_budget.h"
#include "storage/catalog/catalog.h"
#include "storage/disk/aligned_buffer.h"
#include "storage/policy/candidates.h"
#include "storage/policy/policy_factory.h"
#include "storage/tiered_cache.h"

namespace terrace::storage {

class TieredCache::Impl {
 public:
  Impl(const CacheOptions& options, Accelerator& accelerator, std::unique_ptr<DiskTier> disk,
       std::unique_ptr<RemoteTier> remote, const Clock& clock, std::unique_ptr<DeviceMemory> device,
       std::unique_ptr<DeviceMemory> host);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // recover.cc
  Status attach_device(std::unique_ptr<DeviceMemory> memory);
  void recover();
  void recover_from_disk();
  void adopt_recovered_blocks(std::span<const DiskNote> cut_drops);
  Result<SpaceId> open_space(const SpaceDescriptor& descriptor);

  // match.cc
  MatchResult match(SpaceId space, std::span<const BlockKey> keys,
                    std::span<const Token> tokens) const;

  // remote_lookup.cc
  void look_up(SpaceId space, std::span<const BlockKey> keys, std::span<const Token> tokens,
               std::int64_t deadline_ns, std::function<void()> done);
  std::optional<std::int64_t> next_deadline_ns() const;

  // leases.cc
  SessionId open_session();
  void abandon_session(SessionId session);
  void end_session(SessionId session);
  void release(SessionId session, LeaseId lease);
  std::vector<SlotOffset> reserve(SessionId session, LeaseId lease, SpaceId space,
                                  std::span<const BlockKey> keys, std::size_t unnamed);

  // acquire.cc
  void acquire(SessionId session, LeaseId lease, SpaceId space, std::span<const BlockKey> keys,
               const AcquireOptions& options, AcquireCallback done);

  // single_flight.cc
  std::optional<std::vector<SlotOffset>> claim(SessionId session, LeaseId lease, SpaceId space,
                                               std::span<const BlockKey> keys, std::size_t unnamed);
  void run_deadlines();

  // seal.cc
  void write_below_healed(Block& block);
  std::vector<SealOutcome> seal(SessionId session, LeaseId lease,
                                std::span<const SealRequest> blocks);

  // transfer.cc
  void put(PutRequest request, PutCallback done);
  TransferId get(GetRequest request, const AcquireOptions& options, GetCallback done);
  void cancel_get(TransferId id);

  // completions.cc
  void set_wake(std::function<void()> wake);
  void run_completions();
  void tick();

  // pins.cc
  Result<PinInfo> pin(const BlockKey& key, const PinOptions& options);
  Status unpin(const BlockKey& key);
  std::vector<PinInfo> pins() const;

  // drop_space.cc
  std::uint64_t drop_space(const BlockKey& digest, std::function<void(Status)> done);

  // evict_prefix.cc
  void evict_prefix(const BlockKey& key, std::function<void(Result<std::uint64_t>)> done);

  // block_reads.cc
  void read_block(const BlockKey& key, std::function<void(Result<BlockPayload>)> done);
  void check_copy(const BlockKey& key, Tier tier, bool remove, std::function<void(CopyCheck)> done);

  // import.cc
  ImportResult check_import(const RecordHeader& header) const;
  void import_block(const RecordHeader& header, std::shared_ptr<const std::byte> payload,
                    std::function<void(ImportResult)> done);

  // age.cc
  void set_max_ages(std::vector<SpaceAge> ages);

  // drain.cc
  void drain(std::function<void()> done);
  std::size_t drain_blocks_left() const;

  void set_quotas(const std::vector<TenantQuota>& quotas) { tenants_.set_quotas(quotas); }

  // report.cc
  CacheStats stats() const;
  BlockPage list(const BlockKey& from, std::size_t limit) const;
  std::optional<BlockDetails> inspect(const BlockKey& key) const;

  // prefixes.cc
  std::optional<BlockKey> find_tails(const BlockKey& from, std::size_t looks, std::size_t limit,
                                     std::vector<PrefixTail>& latest) const;
  std::vector<PrefixRun> prefix_runs(std::span<const PrefixTail> tails,
                                     std::size_t max_blocks) const;

  // invariants.cc
  Status check_invariants() const;

  const Catalog& catalog() const { return catalog_; }
  const ArenaTier& device() const { return device_; }
  const std::optional<ArenaTier>& host() const { return host_; }

 private:
  // work.h
  using Operation = cache_work::Operation;
  using Lease = cache_work::Lease;
  using Session = cache_work::Session;
  using Acquisition = cache_work::Acquisition;
  using BlockRead = cache_work::BlockRead;
  using Import = cache_work::Import;
  using RemoteQuestion = cache_work::RemoteQuestion;
  using QueuedShare = cache_work::QueuedShare;
  using Share = cache_work::Share;
  using TransferPart = cache_work::TransferPart;
  using Transfer = cache_work::Transfer;

  // Wakes the deciding thread from any other. Shared with the engines' notifications, which may
  // outlive the cache by a moment.
  struct Waker {
    std::mutex mutex;
    std::function<void()> wake;
  };

  SpaceEntry& space_of(const Block& block) { return *catalog_.space(block.space); }
  const SpaceEntry& space_of(const Block& block) const { return *catalog_.space(block.space); }
  std::span<std::byte> bytes_of(const Slot& slot) const;
  TierStats& counters(Tier tier) { return counters_[static_cast<std::size_t>(tier)]; }
  Ticket new_ticket(Operation operation);
  std::uint64_t new_recency();
  Lease& lease_of(SessionId session, LeaseId lease);  // made if new
  // The slot is not going to be sealed under the key that it was reserved for.
  void forget_pending(Slot& slot);
  // What release() does but for telling others.
  void drop_lease(SessionId session, LeaseId lease);
  // Nobody wants its answer any more.
  void drop_acquisition(std::uint64_t id);

  // residency.cc: every change of where a block is goes through these.
  void refresh(Block& block) { candidates_.refresh(block, space_of(block).shelf); }
  // A new entry of the catalog, a hole until it gets its copy. Null if the catalog takes no more.
  // `remote_tail`: only Redis is said to have it.
  Block* add_block(SpaceEntry& space, Block* parent, const BlockKey& key,
                   std::span<const Token> tokens, bool remote_tail = false);
  // `last`: as far as is known, the lease uses no block below it.
  void touch(Block& block, std::uint64_t recency, Lease& lease, bool last);
  // A lease stands for one request of inference: all that it uses counts as one use.
  RequestNumber request_of(Lease& lease);
  // Makes `slot` the place of the block in the slot's tier, in the slot's state.
  void attach(Block& block, Slot& slot);
  // A slot that was being loaded now holds its block.
  void become_copy(Slot& slot);
  // Takes the block out of its slot, which is then nobody's and still in use. The block may be gone
  // afterwards.
  void detach(Slot& slot);
  void set_disk(Block& block, DiskCopy copy, std::uint64_t disk_bytes);
  // set_disk() of a block that the disk had at start. What may be evicted is worked out later, once
  // for all: refresh() is still to be called for it.
  void recover_disk_copy(Block& block, std::uint64_t disk_bytes);
  void count_copy(Block& block, Tier tier, bool is_there);  // in device or host
  void count_child(const Block& block, Tier tier, bool is_there);
  void set_redis(Block& block, RedisCopy copy);
  void count_redis(Block& block, RedisCopy copy);
  // Where nothing of the block is left here: what is still believed of it has an end.
  void leave_to_remote(Block& block);
  // The block is kept here: it, and what is above it, is more than what Redis is said to have.
  void end_remote_tail(Block& block);
  // Ends a change that began when the block was a hole or not: counts holes, and removes the block
  // if nothing of it is left, and those above it that nothing needs any more.
  void settle(Block& block, bool was_hole);
  // The slot's bytes do not verify: its block loses this copy, and the slot is kept away until
  // nobody can touch it any more.
  void quarantine(Slot& slot);
  void free_if_out_of_reach(Slot& slot);
  void hold(Slot& slot);
  void unhold(Slot& slot);
  void begin_use(Slot& slot);
  void end_use(Slot& slot);

  // evict.cc
  // A free slot, made by evicting what may go without I/O; null if there is none.
  Slot* new_slot(ArenaTier& arena, const SpaceEntry& space);
  void free_slot(Slot& slot);
  template <typename Next>
  Block* fair_victim(Tier tier, std::uint64_t capacity_bytes, const SpaceEntry* space,
                     Choice choice, Next next);
  Slot* take_device_slot(const SpaceEntry& space);
  Slot* take_host_slot(const Block& demoted);
  // For a block that comes from below: what the device tier has as well may go for it.
  Slot* take_host_slot_for_load(const SpaceEntry& space);
  template <typename NextVictim>
  Slot* take_slot(ArenaTier& arena, const SpaceEntry& space, NextVictim next_victim);
  // The block may be gone afterwards.
  void evict(Block& block, Tier tier);
  Block* next_disk_victim(const SpaceEntry* space);
  enum class Room { made, later, none };  // later: more must go than one turn may evict
  // For a block of `space`, or null for whoever comes.
  Room make_disk_room(std::uint64_t bytes, const SpaceEntry* space);
  void evict_disk_ahead();

  // acquire.cc
  // `partial_tokens` of the run's last block are wanted, if not 0.
  std::size_t worthwhile_run(const SpaceEntry& space, std::span<Block* const> run,
                             double prefill_tokens_per_second, std::uint32_t partial_tokens) const;
  // Adds as much of `run` to the acquisition as is worth loading and has room: whether all.
  bool extend(std::uint64_t id, std::span<Block* const> run, std::uint32_t partial_tokens);
  bool needs_check(const Slot& slot, SessionId session) const;
  void resolve_waiters(Slot& slot, bool ready);
  // This much of what those who wait for the slot wait for is over.
  void note_wait(const Slot& slot, std::int64_t AcquireTimes::*part);
  void truncate(std::uint64_t id, std::size_t length);
  void deliver_finished();

  // single_flight.cc
  // Begins to wait for the leading ones of `keys` that others are computing.
  void await_others(std::uint64_t id, Acquisition& acquisition, std::span<const BlockKey> keys);
  void await_next(std::uint64_t id, Acquisition& acquisition);
  void stop_awaiting(std::uint64_t id, Acquisition& acquisition);
  // Takes what was sealed meanwhile and goes on waiting, or stops.
  void look_again(std::uint64_t id);
  // Ends a wait with what there is.
  void end_wait(std::uint64_t id);
  void end_all_waits();
  // What was sealed, or will not be, since the last time. At the end of every call that may have
  // changed it: it may call back.
  void tell_waiting();

  // load.cc
  void start_load(Slot& slot);
  void pump_loads();
  void start_check(Slot& slot);
  void finish_load(const Operation& operation, const Status& status, std::uint64_t checksum);
  void finish_check(const Operation& operation, const Status& status, std::uint64_t checksum);
  void fail_load(Slot& slot);

  void run_remote_completions();

  // remote_lookup.cc
  bool remote_usable() const;
  // Whether it can be had now.
  bool obtainable(const Block& block, bool remote) const {
    return block.kept() || (remote && block.in_redis());
  }
  Ticket ask(RemoteQuestion question);
  void finish_lookup(Ticket ticket, const RemoteCompletion& completion);
  // Takes in what was answered.
  void continue_lookups();
  // Notes of at most so many keys that they are there, and returns how many it looked at.
  std::size_t believe(RemoteQuestion& question, std::size_t most);
  void forget_remote(const BlockKey& key);
  void forget_old_remote_blocks();
  void end_late_lookups();
  void tell_lookups();

  // remote_load.cc
  // Whether a slot of it waits for Redis.
  bool is_fetching(const Block& block) const;
  void start_fetch(Slot& slot);
  void finish_fetch(const Operation& operation, const RemoteCompletion& completion);
  // The block has come about otherwise; what is still written to the slot is nothing any more.
  void give_up_fetch(Slot& slot);
  // An acquisition waits for Redis from now on, and does so until its limit.
  void limit_remote(std::uint64_t id, const Acquisition& acquisition);
  void cut_late_loads();

  // remote_write.cc
  void queue_share(const Block& tail, bool whole);
  void share_used(const Acquisition& used);
  // What leaves next from the lowest tier in memory.
  void share_ahead(const ArenaTier& arena, const Choice& choice);
  // The copy that the CPU can send, if there is one.
  Slot* share_source(const Block& block);
  void pump_shares();
  bool begin_share();
  void ask_for_share();
  void finish_share_lookup(const RemoteCompletion& completion);
  bool continue_share();
  void start_share(Block& block, Slot& source);
  void finish_share(const Operation& operation, const RemoteCompletion& completion);
  // Tries again later.
  void put_off_shares();

  // transfer.cc
  void start_get(TransferId id, const std::vector<AcquiredBlock>& blocks);
  void copy_part(TransferId id, std::size_t part, std::byte* to, std::span<const std::byte> from);
  void finish_copy(const CopyCompletion& completion);
  // Ends a put whose copies are done, and those behind it, unless it is itself behind another.
  void end_put(TransferId id);
  void finish_put(TransferId id);
  void finish_get(TransferId id);

  // write_behind.cc
  // `known_reachable` saves the walk to the first block that reachability costs while there are
  // holes.
  void queue_write(Block& block, bool known_reachable = false);
  void push_write(Block& block);
  // At most what its record takes.
  std::uint64_t write_bytes(const Block& block) const {
    return space_of(block).slot_bytes + record_header_bytes;
  }
  // Decides what becomes of a block that was just sealed, or came from Redis: a copy below at once,
  // when it leaves, or when it is used again.
  // `closes_a_hole`: what is below it is there already.
  void admit(Block& block, bool closes_a_hole);
  bool may_write_behind(const Block& block) const;
  void save_write_budget();
  void pump_writes();
  void start_write(Block& block, Slot& source);
  void finish_write(const Operation& operation, const DiskCompletion& completion);
  void decline_disk(Block& block);
  bool disk_failing() const { return write_failures_ >= failures_until_failing; }
  void flush_recency(std::size_t limit);

  // demote.cc
  // Whether to go on making room in an arena, of whose `total` slots of a size `clean` could be had
  // without I/O: from below the low mark on until the high mark is reached.
  bool short_of_clean(Tier tier, const Choice& choice, std::uint64_t clean, std::uint64_t total);
  // How many slots of a size the arena has for a tenant, or for all, and how many of them are free.
  std::uint64_t slots_for(const ArenaTier& arena, const Choice& choice) const;
  std::uint64_t free_slots_for(const ArenaTier& arena, const Choice& choice) const;
  void copy_ahead();
  void copy_sealed_to_host();
  void copy_ahead(const Choice& choice);
  void demote_ahead(const Choice& choice);
  // False if the host has no place for it.
  bool demote(Block& block);
  void write_ahead(ArenaTier& arena, const Choice& choice);
  // Copies down what an allocation found in its way, in the order of eviction among all sizes.
  void clear_the_way(Tier tier);
  void ask_again_for_stuck(Tier tier, std::uint64_t bytes);
  void finish_demotion(const Operation& operation, const Status& status, std::uint64_t checksum);

  // pins.cc
  Status check_pins() const;
  // Tells the blocks with these keys how they are held now.
  void apply_pins(std::span<const BlockKey> keys);
  void remove_pin(BlockKey key);
  void expire_pins();
  void recover_pin(const DiskNote& note);
  PinInfo describe_pin(const Pin& pin) const;

  // completions.cc: asks for another turn of run_completions().
  void wake();

  // report.cc
  BlockInfo describe(const Block& block) const;

  // drop_space.cc
  void continue_drops();
  // Takes every copy that is not at work from a block, which may be gone afterwards.
  void strip(Block& block, MissReason why = MissReason::dropped);
  void erase_drop_in_redis();
  void finish_drop_erase(const Status& status);
  void finish_drop();
  void finish_drop_flush(Ticket ticket, const Status& status);
  void recover_cut_drop(const DiskNote& note);
  // Whether Redis may still have what was dropped of this space before a crash.
  bool waits_for_cut_drop(const BlockKey& digest) const;
  void continue_cut_drops();
  void finish_cut_drop(Ticket ticket, const Status& status);

  // block_reads.cc
  void pump_block_reads();
  // Reads from the first tier at or below payload.tier that has the block; its end if none has.
  void start_block_read(BlockRead read);
  void finish_block_read(Ticket ticket, const Operation& operation, const Status& status,
                         std::uint64_t checksum, const std::string& place);
  void queue_block_read(BlockRead read);
  void end_block_read(BlockRead read, const std::string& place, bool removed);

  // import.cc
  // Whether a match can reach it, or could if the imports under way succeed.
  bool will_be_reachable(const Block& block) const;
  void import_to_disk(Block& block, Import import);
  void import_to_device(Block& block, Import import);
  void finish_import(Ticket ticket, const Operation& operation, const Status& status,
                     std::uint64_t checksum, std::uint64_t disk_bytes);

  // age.cc
  void apply_max_age(SpaceEntry& space);
  // Blocks of the space that were made before this (core/block_age.h) are too old.
  std::int64_t oldest_created(const SpaceEntry& space) const;
  bool expired(const Block& block) const { return block.created < oldest_created(space_of(block)); }
  // Takes blocks out of every tier as far as nothing is at work on them; they may be gone
  // afterwards.
  void erase_expired(std::span<const BlockKey> keys);
  void erase_expired_blocks();

  // evict_prefix.cc
  void continue_prefix_evictions();
  void finish_prefix_eviction();
  void finish_eviction_flush(Ticket ticket, const Status& status);
  // Whether clients may use it.
  const SpaceEntry* usable_space(SpaceId id) const {
    const SpaceEntry* space = catalog_.space(id);
    return space && !space->dropping ? space : nullptr;
  }

  // compact.cc
  bool clear_a_slab(ArenaTier& arena, const SpaceEntry& space);
  void move_blocks(ArenaTier& arena);
  void finish_move(const Operation& operation, const Status& status, std::uint64_t checksum);

  // drain.cc
  void continue_drain();

  CacheOptions options_;
  Accelerator& accelerator_;
  std::unique_ptr<DiskTier> disk_;
  std::unique_ptr<RemoteTier> remote_;
  const Clock& clock_;
  Catalog catalog_;
  ArenaTier device_;
  std::optional<ArenaTier> host_;
  std::unique_ptr<ReuseTracker> reuse_;  // null if eviction needs none
  Candidates candidates_;
  Tenants tenants_;
  std::shared_ptr<Waker> waker_ = std::make_shared<Waker>();

  std::vector<Tier> tiers_here_;  // of this host
  std::array<TierStats, tier_count> counters_{};
  std::uint64_t declined_loads_ = 0, awaited_blocks_ = 0, expired_waits_ = 0;
  MissNotes miss_notes_;
  std::array<std::uint64_t, miss_reasons> misses_by_reason_{};
  std::uint64_t recency_ = 0;

  std::unordered_map<SessionId, Session> sessions_;
  SessionId next_session_ = 1;
  Flights flights_;
  std::uint64_t reserved_slots_ = 0;
  std::unordered_set<Slot*> quarantined_;

  std::unordered_map<std::uint64_t, Acquisition> acquisitions_;
  std::uint64_t next_acquisition_ = 1;
  std::vector<std::uint64_t> finished_;  // acquisitions that have nothing to wait for
  bool delivering_ = false;

  std::unordered_map<Ticket, Operation> operations_;
  Ticket next_ticket_ = 1;

  std::unordered_map<TransferId, Transfer> transfers_;
  TransferId next_transfer_ = 1;
  std::unordered_map<Ticket, std::pair<TransferId, std::size_t>> copied_parts_;
  std::unordered_map<BlockKey, TransferId> puts_by_key_;  // under way

  std::deque<Slot*> loads_waiting_;  // for a place among the reads in flight
  std::size_t disk_reads_in_flight_ = 0;
  LoadRate disk_rate_, host_rate_, redis_rate_;

  struct QueuedWrite {
    BlockKey key;
    std::uint64_t bytes = 0;
  };
  std::deque<QueuedWrite> write_queue_;  // heads before tails
  std::uint64_t queued_write_bytes_ = 0;
  std::size_t writes_in_flight_ = 0;
  std::uint64_t write_bytes_in_flight_ = 0;
  WriteBudget write_budget_;
  bool write_budget_changed_ = false;
  std::uint64_t declined_writes_ = 0;
  std::uint64_t disk_bytes_ = 0;      // of copies there and of writes under way
  std::uint32_t write_failures_ = 0;  // in a row
  std::int64_t write_not_before_ns_ = 0;
  std::uint32_t no_space_answers_ = 0;  // in a row
  std::vector<BlockKey> touched_;
  std::int64_t recency_flushed_ns_ = 0;

  std::array<std::uint64_t, local_tiers> in_the_way_bytes_{};  // still to be copied down
  std::unordered_set<std::uint64_t> making_room_;  // in which tier, for which size and tenant
  std::deque<BlockKey> to_host_;                   // sealed, where the host's policy is `behind`
  std::size_t demotions_in_flight_ = 0;
  std::uint32_t demotion_failures_ = 0;
  std::int64_t demote_not_before_ns_ = 0;

  std::map<Ticket, RemoteQuestion> lookups_;
  std::vector<std::function<void()>> answered_lookups_;  // to be told
  RecentKeys remote_only_;                               // when Redis was last said to have them
  std::set<std::pair<std::int64_t, std::uint64_t>> remote_limits_;  // of acquisitions
  std::size_t fetches_in_flight_ = 0;
  std::uint64_t remote_lookups_ = 0, shared_lookups_ = 0, late_lookups_ = 0, cut_loads_ = 0;

  std::deque<QueuedShare> shares_;
  std::optional<Share> share_;  // that is being asked for or written
  std::size_t remote_writes_in_flight_ = 0;
  std::uint64_t remote_write_bytes_in_flight_ = 0;
  std::uint32_t share_failures_ = 0;  // in a row
  std::int64_t share_not_before_ns_ = 0;
  RecentKeys rechecked_;  // tails of prefixes
  std::int64_t recheck_not_before_ns_ = 0;
  std::uint64_t already_shared_ = 0, dropped_shares_ = 0;

  PinTable pins_;

  struct Drop {
    SpaceId space = 0;
    BlockKey cursor;
    std::function<void(Status)> done;
    bool erasing = false;  // in Redis, once nothing is left here
    Status in_redis;       // what came of that
  };
  std::deque<Drop> drops_;
  std::unordered_map<Ticket, Drop> dropped_;  // not durable yet
  // Of which a crash left what Redis has.
  struct CutDrop {
    BlockKey digest;
    Ticket asked = 0;  // the erasure under way
    std::uint32_t failures = 0;
    std::int64_t not_before_ns = 0;
  };
  std::vector<CutDrop> cut_drops_;

  struct PrefixEviction {
    BlockKey root;
    std::uint64_t blocks = 0;  // gone so far
    std::function<void(Result<std::uint64_t>)> done;
  };
  std::deque<PrefixEviction> prefix_evictions_;
  std::unordered_map<Ticket, PrefixEviction> evicted_prefixes_;  // not durable yet

  std::deque<BlockRead> block_reads_waiting_;
  std::unordered_map<Ticket, BlockRead> block_reads_;
  std::unordered_map<Ticket, Import> imports_;
  std::unordered_set<BlockKey> importing_;  // their keys

  bool some_space_ages_ = false;  // has or had a maximum age
  BlockKey age_cursor_;
  std::int64_t next_age_pass_ns_ = 0;
  std::uint64_t expired_blocks_ = 0;

  // A slab whose blocks are moving out of it.
  struct Clearing {
    std::optional<std::uint32_t> slab;
    std::vector<std::uint64_t> offsets;  // of slots whose move has not begun
    std::size_t moves = 0;               // under way
    bool failed = false;
    std::int64_t not_before_ns = 0;
  };
  std::array<Clearing, 2> clearing_;  // device, host

  bool draining_ = false;
  bool drain_flushing_ = false;
  std::function<void()> drained_;

  std::vector<DiskCompletion> disk_completions_;
  std::vector<CopyCompletion> copy_completions_;
  std::vector<RemoteCompletion> remote_completions_;
};

}  // namespace terrace::storage
