// The tiered cache behind one class: which block is where, who holds it, what moves up and down.
//
// Every decision is made on one thread, from explicit calls and from the completions of engines
// (disk, accelerator): no lock, no blocking call, so a test can drive years of it in seconds with
// fake engines.
//
// Rules that are never broken:
//  - a slot is in one place: free, reserved by a lease, or the copy of one sealed block;
//  - a copy that somebody holds, or that is being copied from or to, is neither evicted nor written
//  over;
//  - what does not verify is a miss, a counter and a dropped copy.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "core/clock.h"
#include "core/import_outcome.h"
#include "core/record.h"
#include "core/space.h"
#include "core/status.h"
#include "core/tier.h"
#include "storage/block_transfer.h"
#include "storage/device/accelerator.h"
#include "storage/disk/disk_tier.h"
#include "storage/ids.h"
#include "storage/miss_reason.h"
#include "storage/policy/eviction_order.h"
#include "storage/prefix_run.h"
#include "storage/redis/remote_tier.h"

namespace terrace::storage {

class StagingAccelerator;
class StagedDisk;

// When a device block that a session other than its sealer acquires is checked against its
// checksum. first_use: once, unless a write to disk has checked it already. A check that is under
// way already counts for whoever asks meanwhile.
enum class DeviceVerify { never, first_use, always };

// When a block is copied to a lower tier.
enum class WritePolicy : std::uint8_t {
  behind,         // as soon as it is sealed
  on_evict,       // ahead of its eviction from the tier above
  on_second_use,  // when it is acquired after it was sealed
};

constexpr std::uint64_t no_quota = UINT64_MAX;

// The most that the spaces of a tenant may take of each of the tiers device, host and disk. Who
// reaches it gives up blocks of his own. When a tier is full, who has more than his share of it
// gives first; a share is the quota, or less where a tier has not room for all quotas, and what
// they leave for those without one.
struct TenantQuota {
  std::string name;  // as in a SpaceDescriptor; "*": all who are not named, together
  std::array<std::uint64_t, 3> bytes{no_quota, no_quota, no_quota};
};

// How old the blocks of a space may become.
struct SpaceAge {
  std::string name;             // a space's label, the first digits of its digest, or "*"
  std::int64_t max_age_ms = 0;  // 0: any age
};
// So many digits are a name.
constexpr std::size_t min_digest_digits = 8;

struct CacheOptions {
  std::uint64_t device_capacity_bytes = 0;  // 0: no device tier until attach_device()
  std::uint64_t host_capacity_bytes = 0;    // 0: no host tier
  std::uint64_t slab_bytes = 64ull << 20;   // arenas are handed to spaces in slabs of this size
  // Blocks are copied down ahead of need: from when fewer than the low fraction of an arena's slots
  // could be had without I/O until the high one could.
  double clean_low_fraction = 0.05;
  double clean_fraction = 0.1;
  WritePolicy host_write = WritePolicy::on_evict;
  WritePolicy disk_write = WritePolicy::behind;
  // For the tier that other hosts share: as far as it keeps up, whatever the policy. on_evict:
  // ahead of the eviction from the lowest tier in memory.
  WritePolicy redis_write = WritePolicy::on_second_use;
  // What may be written to disk in an hour and in a day of UTC before `behind` acts as
  // on_second_use; 0: no limit. What is used twice is written whatever was spent, and counts.
  std::uint64_t write_behind_hour_bytes = 0;
  std::uint64_t write_behind_day_bytes = 0;
  std::vector<TenantQuota> tenants;  // each name once
  std::vector<SpaceAge> max_ages;    // as of TieredCache::set_max_ages()
  // What pins may hold in all.
  std::uint64_t pin_capacity_bytes = 0;
  // Of each tier.
  EvictionOrder eviction = EvictionOrder::reuse_index;
  DeviceVerify device_verify = DeviceVerify::first_use;
};

struct MatchResult {
  std::vector<BlockState> blocks;    // one a key
  std::uint32_t matched_blocks = 0;  // the leading run of present blocks
  std::uint32_t partial_tokens =
      0;                 // leading tokens of the first missing block that some sealed block shares
  BlockKey partial_key;  // that block, if partial_tokens > 0
  Tier partial_tier = Tier::device;  // the highest that has it
  std::uint64_t load_ns = 0;         // estimated time to bring the leading run into the device tier
};

// What an acquire waited for: how long after its beginning the last of each kind was over; 0: it
// waited for none. They go on at the same time.
struct AcquireTimes {
  std::int64_t host_ns = 0;    // copies from the host tier
  std::int64_t disk_ns = 0;    // reads
  std::int64_t redis_ns = 0;   // likewise
  std::int64_t check_ns = 0;   // verification of what another session sealed
  std::int64_t others_ns = 0;  // blocks that other sessions computed
};

struct AcquireOptions {
  // How fast the worker computes tokens; 0 if unknown. Blocks that would load slower than that are
  // left out.
  double prefill_tokens_per_second = 0;
  // If not 0, only so many leading tokens of the last key's block are wanted: it is a match's
  // partial_key, behind the leading run.
  std::uint32_t partial_tokens = 0;
  // How long to wait for keys behind the present run that other sessions are computing; 0: not at
  // all. Each is taken as it is sealed. The wait ends early when nobody else computes the next one
  // any more (its reservation was released or abandoned).
  std::uint32_t wait_ms = 0;
  // Until when loads from Redis are waited for, on the clock's monotonic time: the run ends before
  // the first that has not come by then. 0: a second.
  std::int64_t remote_deadline_ns = 0;
  // The tier that what is lower comes to. host: for warming; what the device tier has stays there
  // alone, the slots of the answer lie in either arena, and nothing is checked against its
  // checksum that was loaded before. The answer is empty where there is no such tier.
  Tier into = Tier::device;
  // Filled, if there is one, until the answer comes.
  std::shared_ptr<AcquireTimes> times = nullptr;
};

struct AcquiredBlock {
  SlotOffset slot = 0;
  Tier from = Tier::device;  // where it was when it was asked for
};

// The leading run of the keys that is now in the tier that it was wanted in, or a higher one, and
// held by the lease: maybe shorter than asked for. Called exactly once, on the deciding thread,
// maybe before acquire() returns; not at all after the lease was released or its session has ended.
using AcquireCallback = std::function<void(std::vector<AcquiredBlock>)>;

struct SealRequest {
  SlotOffset slot = 0;
  BlockKey parent;
  std::vector<Token> tokens;
  std::uint64_t checksum = 0;  // payload_checksum of the slot's bytes, taken by the sealer
};

enum class SealOutcome : std::uint8_t {
  sealed,     // matchable from now on
  duplicate,  // the same block was there already; the slot stays the lease's own until it is
              // released, and is pending no longer
  invalid,    // not a slot reserved by this lease, a wrong number of tokens, a parent that no match
              // can reach, no memory to know another block, or the cache is draining; the slot
              // stays the lease's own
};

struct PinOptions {
  // Absent: the blocks stay somewhere. device or host: each stays in this tier once it is there.
  std::optional<Tier> tier;
  std::int64_t expires_unix_ms = 0;  // 0: never
};

struct PinInfo {
  BlockKey key, space;
  std::optional<Tier> tier;
  std::int64_t expires_unix_ms = 0;
  std::uint64_t blocks = 0;  // of the prefix
  std::uint64_t bytes = 0;   // of all of them
  bool whole = false;        // all of them are in some tier
};

// The tier that other hosts share, beside its TierStats.
struct RemoteStats {
  RemoteUsage usage;
  std::uint64_t lookups = 0;         // questions which of some keys are there
  std::uint64_t shared_lookups = 0;  // that found the same question under way already
  std::uint64_t late_lookups = 0;    // not answered in time
  std::uint64_t lookups_in_flight = 0, reads_in_flight = 0, writes_in_flight = 0;
  std::uint64_t cut_loads = 0;         // acquires that went on without what came too late
  std::uint64_t queued_prefixes = 0;   // to be written
  std::uint64_t dropped_prefixes = 0;  // from a full queue
  std::uint64_t already_there = 0;     // blocks that others had written before
};

struct TierStats {
  // Of Redis: no bytes, and the blocks that are believed to be there.
  std::uint64_t capacity_bytes = 0, used_bytes = 0, blocks = 0;
  std::uint64_t hits = 0;    // blocks acquired that match found here
  std::uint64_t misses = 0;  // blocks acquired, or found missing by a reserve, that were not here,
                             // and loads from here that failed
  std::uint64_t promotions = 0;   // blocks copied from here upwards
  std::uint64_t demotions = 0;    // blocks copied from here downwards
  std::uint64_t evictions = 0;    // copies dropped from here to make room
  std::uint64_t failures = 0;     // reads, writes and copies from or to here that failed
  std::uint64_t corruptions = 0;  // copies dropped from here because they did not verify
};

struct TenantStats {
  std::string name;
  std::array<std::uint64_t, 3> used_bytes{};  // of device, host and disk
  std::array<std::uint64_t, 3> quota_bytes{no_quota, no_quota, no_quota};
};

struct CacheStats {
  std::array<TierStats, tier_count> tiers{};
  // A put or a get under way counts as a lease, and as no session.
  std::uint64_t sessions = 0, leases = 0, reserved_slots = 0, pending_blocks = 0, spaces = 0;
  // Slots that nobody may use now: reserved by abandoned sessions, or did not verify and somebody
  // could still touch them.
  std::uint64_t quarantined_slots = 0;
  // Blocks without any copy on this host that are known because of their descendants here.
  std::uint64_t holes = 0;
  // Blocks in the catalog, holes included, and the memory that it really takes for them: blocks,
  // their tokens and the index, without the slots of copies in memory. Of that, the tokens.
  std::uint64_t known_blocks = 0, catalog_bytes = 0, catalog_token_bytes = 0;
  // Keys that a reserve named, by why they had to be computed (MissReason), as far as is
  // remembered.
  std::array<std::uint64_t, miss_reasons> misses_by_reason{};
  std::uint64_t expired_blocks = 0;    // erased because of their age
  std::uint64_t declined_loads = 0;    // blocks left out because recomputing them is faster
  std::uint64_t waiting_acquires = 0;  // for keys that others are computing
  std::uint64_t awaited_blocks = 0;    // that came while somebody waited for them
  std::uint64_t expired_waits = 0;     // that ended at their limit
  // Sealed blocks that were not written to disk at once because they were used only once: by
  // on_second_use, or past the budget of `behind`.
  std::uint64_t declined_writes = 0;
  std::uint64_t pins = 0;
  std::uint64_t pinned_bytes = 0, pin_capacity_bytes = 0;
  std::vector<TenantStats> tenants;  // none if nobody has a quota
  // What was written to disk in this hour and this day of UTC.
  std::uint64_t disk_hour_bytes = 0, disk_day_bytes = 0;
  std::optional<RemoteStats> remote;  // if there is such a tier
};

struct BlockInfo {
  BlockKey space, key, parent;
  std::uint32_t depth = 0;  // 0 for a first block
  std::vector<Token> tokens;
  std::array<bool, tier_count> tiers{};
  std::uint32_t holders = 0;  // leases
  std::uint64_t recency = 0;  // of its last use: about milliseconds since 1970
  std::uint64_t bytes = 0;    // of its payload
  // Requests that used it, the one that computed it among them, as far as is known: a restart
  // leaves one. max_uses (storage/policy/reuse_class.h) stands for more, too.
  std::uint32_t uses = 0;
  std::int64_t created_unix_ms = 0;  // when it was sealed, to within core/block_age.h
};

struct BlockPage {
  std::vector<BlockInfo> blocks;
  std::optional<BlockKey> next;  // where to go on, absent at the end
};

// Everything that is known of one block.
struct BlockDetails {
  struct SlotDetails {
    SlotOffset slot = 0;
    std::uint64_t checksum = 0;
    bool verified = false;  // its bytes have been seen to agree with the checksum
    SessionId sealer = 0;   // 0: filled by the daemon
  };
  BlockInfo block;
  std::optional<SlotDetails> device, host;
  std::uint64_t disk_bytes = 0;    // what it takes of the capacity; 0 if it is not there
  std::uint32_t children = 0;      // blocks that follow it
  std::vector<SessionId> holders;  // sessions with a lease that holds it, each once
  std::vector<BlockKey> pins;      // that cover it
};

// The payload of a block, copied out of one tier and verified.
struct BlockPayload {
  BlockInfo block;  // as it was when the copy began
  Tier tier = Tier::device;
  std::uint64_t checksum = 0;              // payload_checksum of the bytes
  std::shared_ptr<const std::byte> bytes;  // block.bytes of them
};

// What a look at one copy of a block has shown.
struct CopyCheck {
  Status status;            // ok; not_found if there is none (any more); corruption; io_error
  std::string place;        // where it lies, for people; "" if it verifies
  std::uint64_t bytes = 0;  // of its payload
  bool removed = false;     // it did not verify, and is gone
};

struct ImportResult {
  ImportOutcome outcome = ImportOutcome::wanted;
  std::string reason;  // of no_room and refused, for people
};

// not_found, in words.
Status not_pinned(const BlockKey& key);

class TieredCache {
 public:
  // `disk` may be null: no disk tier; so may `remote`: no tier that other hosts share. The
  // accelerator and the clock must outlive the cache. Blocks
  // that the disk recovered are known at once. no_space, invalid_argument or io_error if the arenas
  // cannot be had. Device memory that the CPU cannot access is as good as any: what goes between it
  // and the disk passes through buffers in host memory.
  static Result<std::unique_ptr<TieredCache>> create(const CacheOptions& options,
                                                     Accelerator& accelerator,
                                                     std::unique_ptr<DiskTier> disk,
                                                     const Clock& clock,
                                                     std::unique_ptr<RemoteTier> remote = nullptr);
  ~TieredCache();

  // Other quotas for the tenants that the cache was created with; who is not among `quotas` has
  // none from now on, and other names are ignored. Who has more than he may loses nothing at once:
  // he gives up blocks of his own when he needs room.
  void set_quotas(const std::vector<TenantQuota>& quotas);

  // Other maximum ages. A block that is older than its space allows is a miss from then on, and is
  // erased in the turns that follow: from every tier, Redis as far as it is known to be there and
  // can be reached, whatever a pin says. Its time began when it was sealed, on whichever host, and
  // goes on over restarts. Among the names that fit a space the shortest age holds; "*" is for
  // spaces that no other name fits.
  void set_max_ages(std::vector<SpaceAge> ages);

  // Gives the cache the device tier that it was created without: memory from the accelerator's
  // allocate(). failed_precondition if there is one already.
  Status attach_device(std::unique_ptr<DeviceMemory> memory);
  // Whether the device knows of the host arena; ok too if there is none. Otherwise copies between
  // the two are slower.
  const Status& host_registration() const;

  // `wake` is called from any thread when run_completions() has something to do; it must only wake.
  void set_wake(std::function<void()> wake);
  // Handles what engines have completed. Call after each wake.
  void run_completions();
  // Work by time: demotion ahead of need, recency to disk. Call every 100 ms or so.
  void tick();
  // When the next wait of an acquire or a look_up ends, on the clock's monotonic time; nothing if
  // none waits. Call run_deadlines() then: sooner does nothing, later makes that one late.
  std::optional<std::int64_t> next_deadline_ns() const;
  void run_deadlines();

  // invalid_argument for a descriptor that does not validate. The same descriptor gives the same
  // id.
  Result<SpaceId> open_space(const SpaceDescriptor& descriptor);
  const SpaceDescriptor* space(SpaceId id) const;
  std::optional<SpaceId> find_space(const BlockKey& digest) const;
  std::vector<SpaceDescriptor> spaces() const;
  // How many of them bear this tenant's name.
  std::size_t spaces_of(const std::string& tenant) const;

  SessionId open_session();
  // The connection is gone but the process behind it may still touch its slots: leases stay,
  // quarantined.
  void abandon_session(SessionId session);
  // The process is gone or says that it touches nothing any more: every lease of the session is
  // released.
  void end_session(SessionId session);

  // Pure metadata; no use is counted. `tokens` are those of the whole prompt (only the ones of the
  // first missing block are read) and may be empty.
  MatchResult match(SpaceId space, std::span<const BlockKey> keys,
                    std::span<const Token> tokens) const;

  // Asks the tier that other hosts share what it has of `keys` behind those that are kept here, in
  // one round trip, so that a match finds that, too, for a while. `tokens` are those of the keys:
  // no key is believed without. `done` is called once, on the deciding thread: before look_up()
  // returns where there is nothing to ask or nobody to be asked, by `deadline_ns` (on the clock's
  // monotonic time) where run_deadlines() is called in time; not at all if the cache ends first.
  void look_up(SpaceId space, std::span<const BlockKey> keys, std::span<const Token> tokens,
               std::int64_t deadline_ns, std::function<void()> done);

  // Holds the leading run of `keys` for `lease` (made if new) and promotes what is lower. This is a
  // use: it counts, and moves blocks to the recent end. Unknown sessions and spaces get nothing.
  // The limit of a wait does not cut off what is present: loads and checks under way are awaited as
  // ever.
  void acquire(SessionId session, LeaseId lease, SpaceId space, std::span<const BlockKey> keys,
               const AcquireOptions& options, AcquireCallback done);

  // Slots to write to in the device tier: one a key, shown as pending under it until sealed, then
  // `unnamed` more. Fewer if the arena has no more room, none while draining: never waits. Their
  // contents are whatever was there before: clients zero what they do not write.
  std::vector<SlotOffset> reserve(SessionId session, LeaseId lease, SpaceId space,
                                  std::span<const BlockKey> keys, std::size_t unnamed);

  // The same, unless the first key has been sealed meanwhile or another session is computing it:
  // then nothing is reserved and there is no answer. So of several that missed the same prefix at
  // once, one computes it and the others learn that they may wait.
  std::optional<std::vector<SlotOffset>> claim(SessionId session, LeaseId lease, SpaceId space,
                                               std::span<const BlockKey> keys, std::size_t unnamed);

  // Makes reserved slots matchable; the lease goes on holding them. Keys are computed here, from
  // the tokens.
  std::vector<SealOutcome> seal(SessionId session, LeaseId lease,
                                std::span<const SealRequest> blocks);

  // Ends a lease; nothing if there is none. Slots that were reserved and not sealed are free again.
  void release(SessionId session, LeaseId lease);

  // Copies blocks into the cache out of memory of a client, off the deciding thread. `tokens` are
  // as many as `sources` blocks have, sizes as the space says; keys are computed here. `done` is
  // called once, on the deciding thread, maybe before put() returns; not at all if the cache ends
  // first, which waits for copies under way.
  void put(PutRequest request, PutCallback done);

  // Copies the leading run of blocks out of the cache, as an acquire would find it: the same
  // options, a use, and nothing is held afterwards. `done` as with put().
  TransferId get(GetRequest request, const AcquireOptions& options, GetCallback done);
  // Nobody waits for it any more: `done` is not called, and what it holds goes at once or with the
  // copies that are under way. Nothing if it is over.
  void cancel_get(TransferId id);

  // Keeps the prefix that ends in a block: none of its blocks leaves its last tier, and they are
  // written to disk whatever the policy says. No use is counted. Kept across restarts where there
  // is a disk: durable as fast as a block is. Pinning the same key again changes the pin. not_found
  // if the prefix is not whole; resource_exhausted past the budget of bytes (blocks that several
  // pins share count once), half of a tier's arena, or the number of pins; invalid_argument for a
  // tier that is not there and for a time that is over.
  Result<PinInfo> pin(const BlockKey& key, const PinOptions& options);
  // not_pinned() if it is not.
  Status unpin(const BlockKey& key);
  // In the order of their keys.
  std::vector<PinInfo> pins() const;

  // Drops a space: every copy of its blocks in every tier, its pins, and its records on disk, which
  // a rebuild of the index does not bring back either. Returns how many blocks that are; they go in
  // the turns that follow. Until the last is gone nothing of the space is matched, acquired,
  // reserved or sealed; then it is empty and usable. What a lease holds stays its own until it is
  // released. Then all that Redis has of it goes, for all hosts, whoever wrote it. `done` is called
  // when all is durable, or with the disk's error if that cannot be said; with not_found, at once,
  // if there is no such space; with unavailable if Redis could not be asked or not in time: then
  // what it has ends with its time to live, and is found by whoever asks until then. A crash in
  // between: the next start goes on, but for Redis.
  std::uint64_t drop_space(const BlockKey& digest, std::function<void(Status)> done);

  // Evicts a prefix's tail: the block and all that follow it leave every tier, in the turns that
  // follow, and their records on disk and in Redis are erased, whoever wrote these (not what
  // follows them and only Redis has). What a lease holds stays its own until it is released, though
  // nothing finds it any more. Who computes such a block meanwhile seals it anew. `done` is called
  // with how many blocks it were when that is durable, or with the disk's error if that cannot be
  // said; at once with not_found if there is no such block, and with failed_precondition if a pin
  // holds it, also one that is made meanwhile.
  void evict_prefix(const BlockKey& key, std::function<void(Result<std::uint64_t>)> done);

  // Writes what only device and host hold to disk, but for what the write policy declines, the most
  // recently used prefixes first and of each its head first, and calls `done` when it is durable. A
  // disk that keeps failing is tried again and again: the caller has a deadline and stops waiting.
  // No new blocks are accepted from then on, and Redis is neither waited for nor given anything.
  void drain(std::function<void()> done);
  // Blocks that drain() still has to write.
  std::size_t drain_blocks_left() const;

  // -1 and 0 while there is no device tier.
  int device_arena_fd() const;
  std::uint64_t device_arena_bytes() const;
  // -1 and 0 if there is no host tier.
  int host_arena_fd() const;
  std::uint64_t host_arena_bytes() const;

  CacheStats stats() const;
  // Blocks in the order of their keys, from `from` on, at most `limit` of them.
  BlockPage list(const BlockKey& from, std::size_t limit) const;

  // Nothing if there is no such block. Looks through all leases.
  std::optional<BlockDetails> inspect(const BlockKey& key) const;

  // Copies a block's payload, off the deciding thread, out of the highest tier of this host that
  // has it and where it verifies; a copy that does not is lost, as it is to an acquire. No use, and
  // the block is not promoted. `done` is called once, on the deciding thread, maybe before
  // read_block() returns, not at all if the cache ends first: with not_found if this host has no
  // copy (Redis is not asked), resource_exhausted where too many wait already, corruption or
  // io_error of the last tier that was tried.
  void read_block(const BlockKey& key, std::function<void(Result<BlockPayload>)> done);

  // Reads one copy of a block and compares it with its checksum; Redis' cannot be looked at. With
  // `remove`, one that does not verify is lost, as it is to whoever acquires it; without, nothing
  // changes. `done` as of read_block().
  void check_copy(const BlockKey& key, Tier tier, bool remove, std::function<void(CopyCheck)> done);

  // What import_block() would answer without its bytes: `wanted` if it would take them.
  ImportResult check_import(const RecordHeader& header) const;
  // Takes in a block from elsewhere, whose header says what it is and whose payload (as it is, not
  // encoded) is compared with it: to the disk where there is one, past the tiers above, durable
  // when `done` is called; else to the device. Its space must have been opened, and what it follows
  // be here, or be imported, too: what is on its way at the same time is made durable together.
  // `payload` must not change. `done` as of read_block().
  void import_block(const RecordHeader& header, std::shared_ptr<const std::byte> payload,
                    std::function<void(ImportResult)> done);

  // Looks at `looks` blocks in the order of their keys, from `from` on, and keeps in `latest` (a
  // heap of this function's) the ends of the `limit` prefixes that were used last, of all calls
  // together. Where to go on, nothing at the end.
  std::optional<BlockKey> find_tails(const BlockKey& from, std::size_t looks, std::size_t limit,
                                     std::vector<PrefixTail>& latest) const;
  // The tree of the prefixes that end in `tails`, as far as they are still there and have no more
  // than `max_blocks` blocks in all: each run behind the one it goes on from, of several the one
  // used last first.
  std::vector<PrefixRun> prefix_runs(std::span<const PrefixTail> tails,
                                     std::size_t max_blocks) const;

  // Verifies every invariant between blocks, slots, leases and counters; internal that names the
  // first one broken. For tests: reads everything.
  Status check_invariants() const;

  class Impl;

 private:
  TieredCache();

  // Both only with memory that the CPU cannot access; the disk is the cache's.
  std::unique_ptr<StagingAccelerator> staging_;
  StagedDisk* staged_disk_ = nullptr;
  Status host_registration_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace terrace::storage
