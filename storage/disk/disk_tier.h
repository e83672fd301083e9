// The disk as the cache sees it: blocks go in, come out verified or not at all, and are still there
// after a restart. The cache decides what is kept; the disk keeps it. Implemented by DiskStore
// (data files, a ring and an index) and by a fake in tests.
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
#include "storage/disk/shared_tokens.h"

namespace terrace::storage {

// Chosen by the caller, given back with the completion of a request. Unique among the requests
// under way.
using Ticket = std::uint64_t;

// What the disk knew of a block when it was opened.
struct RecoveredBlock {
  BlockKey space;
  BlockKey key;
  BlockKey parent;
  SharedTokens tokens;
  std::uint64_t disk_bytes = 0;  // what it takes of the capacity: header, stored payload, padding
  std::uint64_t recency = 0;     // larger is more recent; as last told by touch() or write()
  std::int64_t created_unix_ms = 0;  // as told by write()
};

struct DiskWrite {
  Ticket ticket = 0;
  BlockKey space, key, parent;
  std::vector<Token> tokens;
  std::span<const std::byte> payload;  // stays unchanged until the completion
  std::uint64_t payload_checksum =
      0;  // verified while the payload is read: a mismatch completes as corruption
  std::uint64_t recency = 0;
  std::int64_t created_unix_ms = 0;  // kept in the record; 0: now
};

struct DiskRead {
  Ticket ticket = 0;
  BlockKey space, key, parent;
  std::vector<Token> tokens;  // what the record must say of itself
  std::span<std::byte>
      destination;             // payload_bytes, page-aligned; undefined contents if the read fails
  bool leave_corrupt = false;  // a record that does not verify stays as it is
};

// ok: a write is durable (data first, then its index entry), or a read put verified bytes into its
// destination. not_found: a read of what is not there. corruption: the record did not verify; it is
// quarantined and no longer known. no_space: a write found no room; the cache evicts and asks
// again. io_error: anything else.
struct DiskCompletion {
  Ticket ticket = 0;
  Status status;
  std::uint64_t payload_checksum = 0;  // reads: of the bytes delivered
  std::uint64_t disk_bytes = 0;        // writes: what the block now takes of the capacity
  std::string place = {};              // reads of what does not verify: where it lies, for people
};

// A small fact that the cache keeps across restarts beside its blocks, such as a pin.
struct DiskNote {
  std::string name;
  std::string value;
};

struct DiskUsage {
  std::uint64_t capacity_bytes = 0;
  std::uint64_t used_bytes = 0;  // what blocks take, padding and headers included
  std::uint64_t quarantined_records = 0;
};

// All methods are called by the cache's deciding thread, return at once and never block. Requests
// for the same key take effect in the order in which they were made.
class DiskTier {
 public:
  virtual ~DiskTier() = default;

  // What was found at start, and the spaces ever written here (blocks of unknown spaces are not
  // reported). Moves the lists out: the second call returns nothing.
  virtual std::vector<RecoveredBlock> take_recovered_blocks() = 0;
  virtual std::vector<SpaceDescriptor> take_recovered_spaces() = 0;
  // Every note, in the order of their names. Likewise moved out.
  virtual std::vector<DiskNote> take_recovered_notes() = 0;

  // Makes a space known before its first block is written; durable together with that block.
  virtual void add_space(const SpaceDescriptor& space) = 0;

  virtual void write(DiskWrite request) = 0;
  virtual void read(DiskRead request) = 0;
  // Forgets a block and frees its room once no read of it is under way. Nothing if it is not there.
  virtual void erase(const BlockKey& key) = 0;
  // Tells how recently blocks were used. Written in batches, lost by at most a second at a crash.
  virtual void touch(std::span<const BlockKey> keys, std::uint64_t recency) = 0;
  // Keeps a note under its name in place of what was there; an empty value removes it. Durable with
  // the next commit, as fast as a block; lost with the index, as recency is.
  virtual void set_note(DiskNote note) = 0;
  // Completes when everything asked for before is durable, recency and notes included.
  virtual void flush(Ticket ticket) = 0;

  // Moves the completions that have arrived to the end of `out`.
  virtual void take_completions(std::vector<DiskCompletion>& out) = 0;
  // Called from any thread whenever take_completions has something new; must only wake the deciding
  // thread. Set once, before the first request.
  virtual void set_notify(std::function<void()> notify) = 0;

  virtual DiskUsage usage() const = 0;
};

}  // namespace terrace::storage
