// What the cache has under way: sessions and their leases, operations of engines, acquisitions,
// questions to Redis and what is given to it, payloads on their way in and out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "storage/catalog/block.h"
#include "storage/disk/aligned_buffer.h"
#include "storage/policy/reuse_class.h"
#include "storage/tiered_cache.h"

namespace terrace::storage::cache_work {

// What engines work on, by ticket.
struct Operation {
  enum class Kind : std::uint8_t {
    load,    // into `slot`, from `other` (host) or from disk
    verify,  // of `slot`
    demote,  // from `slot` (device) to `other` (host)
    write,   // of `slot` to disk
    flush,
    drop_flush,      // after a drop
    eviction_flush,  // after an eviction of a prefix
    move,            // from `slot` to `other`, in the same arena
    fetch,           // into `slot` from Redis, on the way to `other` if there is one
    share,           // of `slot` to Redis
    import,          // of memory from elsewhere to `slot`, or to the disk if there is none
    read,            // of `slot`, or of the disk if there is none, into memory of its own
    drop_erase,      // of a space from Redis, in a drop
    cut_drop_erase,  // likewise, of one that a crash cut short
    transfer,        // between a slot and memory of a client: see copied_parts_
  };
  Kind kind = Kind::flush;
  Block* block = nullptr;
  Slot* slot = nullptr;
  Slot* other = nullptr;
};

struct Lease {
  std::vector<Slot*> slots;                 // reserved or held, once for each hold
  std::vector<std::uint64_t> acquisitions;  // that have not called back yet
  RequestNumber request = unknown_request;  // as the reuse index counts them
};
struct Session {
  bool abandoned = false;
  std::unordered_map<LeaseId, Lease> leases;
};

struct Acquisition {
  enum class Part : std::uint8_t { waiting, ready };
  SessionId session = 0;
  LeaseId lease = 0;
  SpaceId space = 0;
  std::vector<Slot*> slots;  // held
  std::vector<Tier> from;
  std::vector<Part> parts;
  std::size_t waiting = 0;
  // While it waits for what others compute: the keys behind the run as it was at first. It is
  // the one at `next_awaited` that is in flights_.
  bool awaits = false;
  std::vector<BlockKey> awaited;
  std::size_t next_awaited = 0;
  std::int64_t wait_limit_ns = 0;
  std::int64_t remote_limit_ns = 0;  // for loads from Redis
  Tier into = Tier::device;          // or host
  double prefill_tokens_per_second = 0;
  AcquireCallback done;
  std::shared_ptr<AcquireTimes> times;  // if somebody wants to know
  std::int64_t started_ns = 0;

  bool finished() const { return waiting == 0 && !awaits; }
};

// A payload on its way out of the cache, or a look at a copy.
struct BlockRead {
  BlockKey key;
  BlockPayload payload;
  std::shared_ptr<AlignedBuffer> buffer;  // null: not begun, or not needed
  Status problem;                         // of the tier that was tried last
  std::function<void(Result<BlockPayload>)> done;
  std::function<void(CopyCheck)> checked;  // in place of `done`: this tier only
  bool remove = true;                      // what does not verify
};
// A block on its way in from elsewhere.
struct Import {
  BlockKey key;
  std::shared_ptr<const std::byte> payload;
  std::uint64_t checksum = 0;
  std::function<void(ImportResult)> done;
};

// What Redis is asked.
struct RemoteQuestion {
  SpaceId space = 0;
  BlockKey parent;  // of the first key
  std::vector<BlockKey> keys;
  std::vector<Token> tokens;  // of these keys
  std::int64_t deadline_ns = 0;
  std::vector<std::function<void()>> waiting;
  bool of_share = false;  // nobody waits for it but the share
  // Once it is answered: how many leading keys are there, and of how many that is noted.
  std::optional<std::size_t> present;
  std::size_t believed = 0;
};

struct QueuedShare {
  BlockKey tail;
  bool whole = false;  // also what is believed to be there is asked for
};
// A prefix that is given to Redis.
struct Share {
  SpaceId space = 0;
  QueuedShare queued;
  std::vector<BlockKey> keys;
  Ticket asked = 0;       // the question under way
  std::size_t known = 0;  // of how many keys it is known whether they are there
  std::size_t asks = 0;
  std::size_t next = 0;  // the first that may have to be written
};

// A block of a put or a get.
struct TransferPart {
  std::size_t index = 0;  // among those of the request
  Slot* slot = nullptr;   // held by the transfer's lease
  BlockKey key, parent;   // of a put
  bool arrived = false;   // of a put: is being looked at in the device's memory
  bool good = false;      // copied and verified
};
// A put or a get: the other half is empty.
struct Transfer {
  SessionId session = 0;
  PutRequest put;
  PutCallback put_done;
  std::vector<PutOutcome> outcomes;
  TransferId behind = 0;              // the put under way that has its parent
  std::vector<TransferId> followers;  // that are behind it
  GetRequest get;
  GetCallback get_done;  // null once cancelled
  std::vector<GotBlock> got;
  bool acquiring = false;  // waits for the acquire's answer
  std::vector<TransferPart> parts;
  std::size_t copies = 0;  // under way
};

}  // namespace terrace::storage::cache_work
