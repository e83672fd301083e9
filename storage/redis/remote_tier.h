// The tier that other hosts share, as the cache sees it: blocks are looked up by key, come in
// verified or not at all, and may be gone at any time, since others and the server itself remove
// them. Implemented by RedisStore and by a fake in tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "core/space.h"
#include "core/status.h"
#include "storage/disk/disk_tier.h"

namespace terrace::storage {

// Which of the keys are there: asked all at once, one round trip to each server.
struct RemoteLookup {
  Ticket ticket = 0;
  BlockKey space;
  std::vector<BlockKey> keys;  // of one prefix, in its order
  // On the clock's monotonic time: completes as unavailable by then, and by the configured time-out
  // in any case. 0: only by the latter.
  std::int64_t deadline_ns = 0;
};

struct RemoteRead {
  Ticket ticket = 0;
  BlockKey space, key, parent;
  std::vector<Token> tokens;         // what the record must say of itself
  std::span<std::byte> destination;  // payload_bytes, page-aligned, accessible by the CPU;
                                     // undefined contents if the read fails
  std::int64_t deadline_ns = 0;
};

struct RemoteWrite {
  Ticket ticket = 0;
  BlockKey space, key, parent;
  std::vector<Token> tokens;
  std::span<const std::byte> payload;  // stays unchanged until the completion; CPU-accessible
  // Verified before the value is complete at the server: a mismatch completes as corruption and
  // leaves nothing there.
  std::uint64_t payload_checksum = 0;
  std::int64_t created_unix_ms = 0;  // kept in the record; 0: now
  std::int64_t max_ttl_ms = 0;       // the server drops it no later than that; 0: as configured
};

// All values of a space, whoever wrote them.
struct RemoteEraseSpace {
  Ticket ticket = 0;
  BlockKey space;
};

// ok: a lookup was answered, a read put verified bytes into its destination, a write was
// acknowledged, nothing of a space is left that was there when its erasure began. not_found: a read
// of what is not there. corruption: the value did not verify; it was deleted at the server (of a
// write: the payload did not). no_space: the server refuses to take more. unavailable: the server
// is away, too slow, not ready, or not asked because it was so lately; or a queue here is full.
// io_error: anything else that the server answered.
struct RemoteCompletion {
  Ticket ticket = 0;
  Status status;
  std::uint32_t present = 0;  // lookups: how many leading keys are there; an answer ends at a hole
  std::uint64_t payload_checksum = 0;  // reads: of the bytes delivered
  std::uint64_t stored_bytes = 0;      // writes and reads: of the value
  std::int64_t created_unix_ms = 0;    // reads: as the record says
};

enum class Breaker : std::uint8_t { closed, open, half_open };

constexpr const char* to_string(Breaker breaker) {
  return breaker == Breaker::closed ? "closed" : breaker == Breaker::open ? "open" : "half_open";
}

struct RemoteUsage {
  Breaker breaker = Breaker::closed;
  // Why the breaker opened, or nothing was written for a while, the last time; "" if that never
  // was; without secrets. Since when, in milliseconds since 1970.
  std::string last_failure;
  std::int64_t failed_unix_ms = 0;
  std::uint64_t connections = 0;  // open ones
  std::uint64_t in_flight_bytes = 0;
  // Requests by how they ended.
  std::uint64_t found = 0, absent = 0, written = 0, corrupt = 0, refused = 0, timed_out = 0,
                failed = 0, not_asked = 0, rejected = 0;
  std::uint64_t reconnects = 0, redirections = 0;  // MOVED and ASK
};

// All methods are called by the cache's deciding thread, return at once and never block.
class RemoteTier {
 public:
  virtual ~RemoteTier() = default;

  // Makes a space known before anything is asked of it: what its blocks must be like.
  virtual void add_space(const SpaceDescriptor& space) = 0;

  // False while the breaker is open: nothing needs asking, every request would complete as
  // unavailable. Cheap.
  virtual bool available() const = 0;

  virtual void lookup(RemoteLookup request) = 0;
  virtual void read(RemoteRead request) = 0;
  virtual void write(RemoteWrite request) = 0;
  // Deletes values at the server, without an answer here; behind the writes that were asked for
  // before.
  virtual void erase(const BlockKey& space, std::span<const BlockKey> keys) = 0;

  // Deletes what the servers have of a space, also what others wrote: every name there is listed,
  // some at a time. What others write meanwhile may stay. unavailable: something may be left.
  virtual void erase_space(RemoteEraseSpace request) = 0;

  // Moves the completions that have arrived to the end of `out`. Every request with a ticket
  // completes exactly once, and no later than its deadline (writes: than the configured time-out;
  // erasures of a space: than half a minute).
  virtual void take_completions(std::vector<RemoteCompletion>& out) = 0;
  // Called from any thread whenever take_completions has something new; must only wake the deciding
  // thread. Set once, before the first request.
  virtual void set_notify(std::function<void()> notify) = 0;

  virtual RemoteUsage usage() const = 0;
};

}  // namespace terrace::storage
