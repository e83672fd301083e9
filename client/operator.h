// What an operator's tool asks a running daemon. Blocking, for a thread without an event loop of
// its own; needs no session and no arena.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "core/block_key.h"
#include "core/import_outcome.h"
#include "core/record.h"
#include "core/space.h"
#include "core/status.h"
#include "core/tier.h"

namespace terrace::client {

struct BlockListing {
  BlockKey space, key, parent;
  std::uint32_t depth = 0;  // 0 for a first block
  std::vector<Token> tokens;
  std::array<bool, tier_count> tiers{};  // who has a copy
  std::uint32_t holders = 0;             // leases
  std::uint64_t recency = 0;             // larger is more recent
  std::uint64_t bytes = 0;               // of the payload
  std::uint32_t uses = 0;                // requests, the one that computed it among them, up to 255
  std::int64_t created_unix_ms = 0;      // to within core/block_age.h
};

struct ListingPage {
  std::vector<BlockListing> blocks;
  std::optional<BlockKey> next;  // where to go on; absent at the end
};

// A block and its bytes.
struct BlockBytes {
  BlockListing block;
  std::uint64_t checksum = 0;        // payload_checksum of `payload`
  std::int64_t created_unix_ms = 0;  // 0: not known
  std::vector<std::byte> payload;
};

// Blocks that are given to the daemon before it says what became of the first of them.
constexpr std::size_t max_imports_at_once = 8;

// What the daemon made of a block from elsewhere.
struct ImportAnswer {
  ImportOutcome outcome = ImportOutcome::wanted;
  std::string reason;  // of no_room and refused
};

// What a look at some blocks has shown.
struct VerifyPage {
  std::string json;              // docs/protocol.md lists its fields
  std::optional<BlockKey> next;  // where to go on; absent at the end
};

struct PinListing {
  BlockKey key, space;
  std::optional<Tier> tier;          // that its blocks stay in; absent: they stay somewhere
  std::int64_t expires_unix_ms = 0;  // 0: never
  std::uint64_t blocks = 0, bytes = 0;
  bool whole = false;  // all blocks are in some tier
};

// One connection. Each call: unavailable if the daemon is not there (any more), deadline_exceeded
// if it takes longer, with a message for people. One thread at a time, and the same one throughout.
class OperatorClient {
 public:
  // `socket_path` as in ClientOptions. What needs a role that this login is not given
  // fails, and says so. Gives up at `deadline`, and after handshake_limit at the latest.
  static Result<std::unique_ptr<OperatorClient>> connect(const std::string& socket_path,
                                                         const Identity& identity = {},
                                                         Deadline deadline = Deadline::max());
  ~OperatorClient();

  // One JSON object; docs/protocol.md lists its fields.
  Result<std::string> stats_json(Deadline deadline);
  // Blocks in the order of their keys, from `from` on (absent: from the first), at most `limit` and
  // what the daemon allows a page.
  Result<ListingPage> list_blocks(const std::optional<BlockKey>& from, std::uint32_t limit,
                                  Deadline deadline);
  Result<std::vector<SpaceDescriptor>> list_spaces(Deadline deadline);

  // Keeps the prefix that ends in this block for `ttl` (zero: until unpin). resource_exhausted past
  // a budget, internal with the daemon's reason for what it refuses otherwise.
  Result<PinListing> pin(const BlockKey& key, const std::optional<Tier>& tier,
                         std::chrono::milliseconds ttl, Deadline deadline);
  Status unpin(const BlockKey& key, Deadline deadline);
  Result<std::vector<PinListing>> list_pins(Deadline deadline);
  // Drops every block of the space with this digest, in every tier; answers when that is durable,
  // with how many they were. After deadline_exceeded the daemon goes on.
  Result<std::uint64_t> drop_space(const BlockKey& digest, Deadline deadline);
  // This block and all that follow it leave every tier; answers when that is durable, with how many
  // they were. After deadline_exceeded the daemon goes on.
  Result<std::uint64_t> evict(const BlockKey& key, Deadline deadline);

  // One JSON object about a block, "" if there is none; docs/protocol.md lists its fields.
  Result<std::string> inspect_json(const BlockKey& key, Deadline deadline);
  // One JSON object: what a match of these tokens finds in a space, block for block, and why not.
  Result<std::string> explain_json(const BlockKey& space, std::span<const Token> tokens,
                                   Deadline deadline);
  // Brings the leading run of a prefix's keys into a tier, device or host: where each block of it
  // was. What is in the device tier counts for the host, too. `tokens`: those of all keys, or none;
  // with them Redis is asked for what is not known here.
  Result<std::vector<Tier>> warm(const BlockKey& space, std::span<const BlockKey> keys,
                                 std::span<const Token> tokens, Tier into, Deadline deadline);

  // A block's payload, verified by the daemon and again here: corruption if it is not what its
  // checksum says. not_found if no tier of the daemon's host has the block.
  Result<BlockBytes> read_block(const BlockKey& key, Deadline deadline);

  // Makes a space known to the daemon, so that blocks of it can be imported.
  Status import_space(const SpaceDescriptor& space, Deadline deadline);
  // Gives the daemon a block, unless it has it: then no payload is sent. `header` is a record's, of
  // this payload as it is; the block before it must be there or have been given. Does not wait
  // until the block is durable: several that are under way become so together. What they became is
  // told by finish_import(), one after the other in the order in which they were given; at most
  // max_imports_at_once may be under way.
  Status start_import(const RecordHeader& header, std::span<const std::byte> payload,
                      Deadline deadline);
  // Of the first that was not finished yet; there must be one. Errors of its own calls as of pin().
  Result<ImportAnswer> finish_import(Deadline deadline);

  // Has the daemon read every copy of at most `blocks` blocks, about `bytes` in all, from the key
  // `from` on (absent: the first), and drop those that do not verify if `remove`.
  Result<VerifyPage> verify_blocks(const std::optional<BlockKey>& from, std::uint32_t blocks,
                                   std::uint64_t bytes, bool remove, Deadline deadline);

  // A JSON array of sessions.
  Result<std::string> sessions_json(Deadline deadline);
  // Cuts the connection of a session.
  Status kick(std::uint64_t session_id, Deadline deadline);

 private:
  class Impl;
  explicit OperatorClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Connects, asks and disconnects.
Result<std::string> fetch_stats_json(const std::string& socket_path, Deadline deadline,
                                     const Identity& identity = {});

}  // namespace terrace::client
