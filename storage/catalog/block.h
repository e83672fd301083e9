// A block as the catalog knows it, and the slots of the arenas that hold its copies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/block_key.h"
#include "core/tier.h"
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
  quarantined,  // did not verify; kept away while somebody may still write to it or read it
};

// A slot in use of the device or the host arena. Its address is stable while it is in use.
struct Slot {
  std::uint64_t offset = 0;
  Tier tier = Tier::device;
  SlotState state = SlotState::reserved;
  bool verified = false;   // the daemon has seen its bytes agree with `checksum`
  bool verifying = false;  // is looking right now
  SpaceId space = 0;
  std::uint32_t holders = 0;  // holds of leases; a reservation is one
  std::uint32_t busy = 0;     // copies from it or into it, and checks of it, under way
  Block* block = nullptr;
  std::uint64_t checksum = 0;
  SessionId session = 0;  // that reserved, later sealed it; 0: filled by the daemon
  LeaseId lease = 0;      // while reserved
  std::optional<BlockKey> pending;
  std::vector<SlotWaiter> waiters;
};

enum class DiskCopy : std::uint8_t { none, writing, present };

// Whether and how easily a copy may be evicted.
enum class Candidate : std::uint8_t {
  no,         // held, busy, or needed by something in the same tier
  settled,    // may go: what should be kept of it is further down already
  droppable,  // may go without I/O, but a nearer tier than the one that has it would like it
  dirty,      // the last copy: to be copied down first, and dropped only where that cannot be
  anchored,   // as dirty, but not to be dropped: others are reachable only through it
};
constexpr std::size_t candidate_kinds = 5;

// The tiers that this cache moves blocks between.
constexpr std::size_t local_tiers = 3;

struct ByTokens {
  using is_transparent = void;
  bool operator()(const Block* a, const Block* b) const;
  bool operator()(const Block* a, std::span<const Token> b) const;
  bool operator()(std::span<const Token> a, const Block* b) const;
};
// Ordered by tokens: whoever shares the longest run with some tokens is a neighbour of their
// lower_bound.
using Children = std::set<Block*, ByTokens>;

struct Block {
  BlockKey key;
  Block* parent = nullptr;  // null for a first block
  SpaceId space = 0;
  std::uint32_t depth = 0;
  std::uint64_t recency = 0;
  std::vector<Token> tokens;
  Children children;

  Slot* device = nullptr;
  Slot* host = nullptr;
  std::uint64_t disk_bytes = 0;  // of the capacity: what it takes, an estimate while writing
  std::uint32_t disk_reads = 0;  // under way
  DiskCopy disk = DiskCopy::none;
  bool disk_declined = false;    // not to be written until it is used again, or reachable again
  bool disk_unreadable = false;  // the last read of the disk's copy failed, though it may be good
  bool host_declined = false;    // likewise the host arena
  bool write_queued = false;     // to the disk
  bool touched = false;          // its recency is still to be told to the disk

  // Children with a copy, or one under way, in each tier.
  std::array<std::uint32_t, local_tiers> children_in{};
  std::array<Candidate, local_tiers> candidate{};

  bool in_device() const { return device && device->state == SlotState::copy; }
  bool in_host() const { return host && host->state == SlotState::copy; }
  bool on_disk() const { return disk == DiskCopy::present; }
  bool present() const { return in_device() || in_host() || on_disk(); }
  bool has(Tier tier) const {
    switch (tier) {
      case Tier::device:
        return in_device();
      case Tier::host:
        return in_host();
      case Tier::disk:
        return on_disk();
      case Tier::redis:
        break;
    }
    return false;
  }
  // The fastest tier that has it. Only for a present block.
  Tier highest_tier() const {
    return in_device() ? Tier::device : in_host() ? Tier::host : Tier::disk;
  }
  bool has_other_than(Tier tier) const {
    return (tier != Tier::device && in_device()) || (tier != Tier::host && in_host()) ||
           (tier != Tier::disk && on_disk());
  }
  // A copy or one under way in any tier.
  bool occupies_anything() const { return device || host || disk != DiskCopy::none; }
};

}  // namespace terrace::storage
