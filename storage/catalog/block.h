// A block as the catalog knows it, and the slots of the arenas that hold its copies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/block_age.h"
#include "core/block_key.h"
#include "core/record.h"
#include "core/space.h"
#include "core/tier.h"
#include "storage/catalog/short_pointer.h"
#include "storage/ids.h"

namespace terrace::storage {

struct Block;

// An acquisition that waits for a slot to be filled or checked.
struct SlotWaiter {
  std::uint64_t acquisition = 0;
  std::uint32_t index = 0;  // of the block in its run
};

enum class SlotState : std::uint8_t {
  reserved,     // a lease writes to it
  loading,      // a copy into it is under way; `block` will be what it holds
  copy,         // holds `block`
  moving,       // a block is being moved into it from another slot of its arena
  dropped,      // its block was dropped, and somebody still holds it
  quarantined,  // did not verify; kept away while somebody may still write to it or read it
};

// Where a block is among the children of its parent. Without a link upwards, which few ways need
// and none of a match: those begin at the root.
struct SiblingLinks {
  ShortPointer<Block> left, right;
};

// Where a block is in a tree: see treap.h. What is in no tree has links of any value.
struct TreeLinks {
  ShortPointer<Block> parent, left, right;
};

// A slot in use of the device or the host arena. It lies in the catalog's region, at a stable
// address.
struct Slot {
  std::uint64_t offset = 0;
  Tier tier = Tier::device;
  SlotState state = SlotState::reserved;
  bool verified = false;   // the daemon has seen its bytes agree with `checksum`
  bool verifying = false;  // is looking right now
  SpaceId space = 0;
  std::uint32_t holders = 0;  // holds of leases; a reservation is one
  std::uint32_t busy = 0;     // copies from it or into it, and checks of it, under way
  ShortPointer<Block> block;
  TreeLinks eviction;  // of the block, in the eviction policy of the slot's tier
  std::uint64_t checksum = 0;
  SessionId session = 0;  // that reserved, later sealed it; 0: filled by the daemon
  LeaseId lease = 0;      // while reserved
  std::optional<BlockKey> pending;
  std::vector<SlotWaiter> waiters;
};

enum class DiskCopy : std::uint8_t { none, writing, present };

// What is believed of the tier that other hosts share. It may be gone at any time: whoever comes to
// know sets it right.
enum class RedisCopy : std::uint8_t { none, writing, present };

// How an operator's pins hold a block: it does not leave its last tier, or not this one once it is
// there.
enum class PinFloor : std::uint8_t { none, anywhere, host, device };

// Whether and how easily a copy may be evicted.
enum class Candidate : std::uint8_t {
  no,         // held, busy, or needed by something in the same tier
  settled,    // may go: what should be kept of it is further down already
  droppable,  // may go without I/O, but a nearer tier than the one that has it would like it
  dirty,      // the last copy: to be copied down first, and dropped only where that cannot be
  queued,     // as dirty, and waits for its write to the disk already
  anchored,   // as dirty, but not to be dropped: others are reachable only through it
  stuck,      // as anchored, but what is below had no place for it when it was asked
};
constexpr std::size_t candidate_kinds = 7;

// The tiers that this cache moves blocks between.
constexpr std::size_t local_tiers = 3;

// What a match reads of a block lies in its first bytes.
constexpr std::size_t matched_bytes = 40;

// Named limit of a prefix, in blocks below the first.
constexpr std::uint32_t max_depth = (1u << 24) - 1;
// Likewise of the children of a block that are counted in each tier.
constexpr std::uint32_t max_counted_children = (1u << 24) - 1;
// A recency is about the time in milliseconds: they reach into the year 10889.
constexpr unsigned recency_bits = 48;
constexpr std::uint64_t max_recency = (std::uint64_t{1} << recency_bits) - 1;

// The children of a block, or the first blocks of a space, ordered by tokens: whoever shares the
// longest run with some tokens is a neighbour of their lower_bound. Lies in the catalog's region.
class Children {
 public:
  class Iterator {
   public:
    Iterator(const Children& all, Block* at) : all_(&all), at_(at) {}
    Block* operator*() const { return at_; }
    Iterator& operator++() {
      at_ = all_->after(*at_);
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const Children* all_;
    Block* at_;
  };

  bool empty() const { return root_ == nullptr; }
  void insert(Block& block);
  void erase(Block& block);

  // All of these give null where there is none.
  Block* first() const;
  Block* last() const;
  // The first that is not less than `tokens`.
  Block* lower_bound(std::span<const Token> tokens) const;
  Block* after(const Block& block) const;
  Block* before(const Block& block) const;

  Iterator begin() const { return {*this, first()}; }
  Iterator end() const { return {*this, nullptr}; }

  // How many blocks a search for it looks at.
  std::size_t depth_of(const Block& block) const;

 private:
  ShortPointer<Block> root_;
};

// Lies in the catalog's region, at a stable address, with its tokens right behind it. What a match
// reads comes first, in 40 bytes: it looks at hundreds of blocks, all over memory, and waits for
// each line of the processor's cache.
struct Block {
  BlockKey key;
  std::uint16_t space = 0;
  bool device_copy : 1 = false;  // `device` is there and holds a copy
  bool host_copy : 1 = false;    // likewise `host`
  DiskCopy disk : 2 = DiskCopy::none;
  bool disk_declined : 1 = false;  // not to be written until it is used again, or reachable again
  bool disk_unreadable : 1 =
      false;                       // the last read of the disk's copy failed, though it may be good
  bool host_declined : 1 = false;  // likewise the host arena
  bool write_queued : 1 = false;   // to the disk
  PinFloor pin : 2 = PinFloor::none;
  bool touched : 1 = false;  // its recency is still to be told to the disk
  RedisCopy redis : 2 = RedisCopy::none;
  // Known only because Redis was asked: neither it nor any block below it has a copy here.
  bool remote_tail : 1 = false;
  bool share_asked : 1 = false;  // by on_evict, since its last use: a second time would be in vain
  std::uint32_t created : age_bits = 0;  // core/block_age.h
  std::uint32_t disk_reads : 8 = 0;      // under way

  ShortPointer<Slot> device;
  ShortPointer<Slot> host;
  std::uint32_t depth : 24 = 0;  // at most max_depth
  std::uint32_t policy_uses : 8 = 0;

  ShortPointer<Block> parent;  // null for a first block
  Children children;
  SiblingLinks siblings;
  TreeLinks disk_eviction;  // in the eviction policy of the disk; a slot has that of its tier

  std::uint64_t recency : recency_bits = 0;
  std::uint64_t disk_units : 16 = 0;  // see disk_bytes()
  // See children_in(). What lies beside them only fills the rest of the four bytes.
  std::uint32_t children_in_device : 24 = 0;
  Candidate device_candidate : 3 = Candidate::no;
  Candidate host_candidate : 3 = Candidate::no;
  std::uint8_t policy_class : 1 = 0;
  std::uint32_t children_in_host : 24 = 0;
  Candidate disk_candidate : 3 = Candidate::no;
  std::uint8_t token_count_log2 : 4 = 0;
  std::uint32_t children_on_disk : 24 = 0;
  // policy_*: the eviction policy's own.
  std::uint32_t policy_time = 0;

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // What it takes of the disk's capacity, an estimate while it is written: records are whole units.
  std::uint64_t disk_bytes() const { return std::uint64_t{disk_units} * record_header_bytes; }
  void set_disk_bytes(std::uint64_t bytes) {
    disk_units = (bytes + record_header_bytes - 1) / record_header_bytes & UINT16_MAX;
  }

  // Children with a copy, or one under way, in a tier.
  std::uint32_t children_in(Tier tier) const {
    return tier == Tier::device ? children_in_device
           : tier == Tier::host ? children_in_host
                                : children_on_disk;
  }
  // One more, or one less. At max_counted_children it stays: such a block leaves no tier any more
  // where so many depend on it.
  void count_child_in(Tier tier, bool more) {
    const std::uint32_t now = children_in(tier);
    if (now == max_counted_children) return;
    const std::uint32_t then = (more ? now + 1 : now - 1) & max_counted_children;
    if (tier == Tier::device) children_in_device = then & max_counted_children;
    if (tier == Tier::host) children_in_host = then & max_counted_children;
    if (tier == Tier::disk) children_on_disk = then & max_counted_children;
  }

  std::span<const Token> tokens() const {
    return {reinterpret_cast<const Token*>(this + 1), token_count()};
  }
  std::span<Token> tokens() { return {reinterpret_cast<Token*>(this + 1), token_count()}; }
  std::size_t token_count() const { return std::size_t{1} << token_count_log2; }

  Candidate candidate(Tier tier) const {
    return tier == Tier::device ? device_candidate
           : tier == Tier::host ? host_candidate
                                : disk_candidate;
  }
  void set_candidate(Tier tier, Candidate kind) {
    if (tier == Tier::device) device_candidate = kind;
    if (tier == Tier::host) host_candidate = kind;
    if (tier == Tier::disk) disk_candidate = kind;
  }

  bool in_device() const { return device_copy; }
  bool in_host() const { return host_copy; }
  bool on_disk() const { return disk == DiskCopy::present; }
  bool in_redis() const { return redis == RedisCopy::present; }
  // Whether this host has a copy. What only Redis has may be found, but is not relied on.
  bool kept() const { return in_device() || in_host() || on_disk(); }
  bool present() const { return kept() || in_redis(); }
  // Missing, and not only the end of something that Redis has.
  bool hole() const { return !kept() && !remote_tail; }
  bool has(Tier tier) const {
    switch (tier) {
      case Tier::device:
        return in_device();
      case Tier::host:
        return in_host();
      case Tier::disk:
        return on_disk();
      case Tier::redis:
        return in_redis();
    }
    return false;
  }
  // The fastest tier that has it. Only for a present block.
  Tier highest_tier() const {
    return in_device() ? Tier::device
           : in_host() ? Tier::host
           : on_disk() ? Tier::disk
                       : Tier::redis;
  }
  // A copy or one under way on this host.
  bool occupies_local() const { return device || host || disk != DiskCopy::none; }
  // The same in any tier.
  bool occupies_anything() const { return occupies_local() || redis != RedisCopy::none; }
  // Its links in the eviction policy of a tier that has it.
  TreeLinks& eviction_links(Tier tier) {
    return tier == Tier::disk ? disk_eviction : (tier == Tier::device ? device : host)->eviction;
  }
};
// Whether something below the block is there for more than what Redis may have: it would be out of
// reach without the block.
inline bool anchors_others(const Block& block) {
  for (const Tier tier : {Tier::device, Tier::host, Tier::disk})
    if (block.children_in(tier) > 0) return true;
  // Seldom more than one: what only Redis has is below blocks that are in use here, too.
  for (const Block* child : block.children)
    if (!child->remote_tail) return true;
  return false;
}

static_assert(max_block_bytes / record_header_bytes + 1 <= UINT16_MAX);  // disk_units
// With its places in the index and in the disk's table (located_table.h) at most 128 bytes a block
// besides its tokens.
static_assert(sizeof(Block) <= 104);
static_assert(offsetof(Block, device) <= matched_bytes);

}  // namespace terrace::storage
