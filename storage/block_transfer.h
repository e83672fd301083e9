// Blocks of clients with memory of their own: copied into the cache and out of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/block_key.h"
#include "core/put_outcome.h"
#include "core/tier.h"
#include "storage/ids.h"

namespace terrace::storage {

// Consecutive blocks of one prefix. What `sources` point to may be written to by others at any
// time: what the cache keeps is what has arrived in its own memory and agrees with the checksum.
struct PutRequest {
  SpaceId space = 0;
  BlockKey parent;            // of the first one: a block's key, or the space's digest
  std::vector<Token> tokens;  // of all of them
  std::vector<std::span<const std::byte>> sources;  // one a block, of its size
  std::vector<std::uint64_t> checksums;             // payload_checksum of each
  std::shared_ptr<const void> memory;               // keeps what `sources` point to
};

using PutCallback = std::function<void(std::vector<PutOutcome>)>;

struct GetRequest {
  SpaceId space = 0;
  std::vector<BlockKey> keys;
  std::vector<std::span<std::byte>> destinations;  // one a key, of a block's size
  std::shared_ptr<const void> memory;              // keeps what `destinations` point to
};

struct GotBlock {
  Tier from = Tier::device;    // where it was when it was asked for
  std::uint64_t checksum = 0;  // payload_checksum of the block
};

// The leading run of the keys that was copied: maybe shorter than asked for.
using GetCallback = std::function<void(std::vector<GotBlock>)>;

using TransferId = std::uint64_t;

}  // namespace terrace::storage
