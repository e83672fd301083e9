// put and get as the calling thread does them: piece by piece through the staging region, one piece
// being copied here while the daemon has another.
#pragma once

#include <span>
#include <vector>

#include "client/shared_connection.h"

namespace terrace::client {

struct SpaceRef {
  SpaceNumber number = 0;
  const SpaceDescriptor& descriptor;
};

// As Space::put and Space::get.
Result<std::vector<PutOutcome>> put_blocks(SharedConnection& shared, const SpaceRef& space,
                                           const BlockKey& parent, std::span<const Token> tokens,
                                           std::span<const std::byte* const> blocks,
                                           Deadline deadline);
Result<std::vector<Tier>> get_blocks(SharedConnection& shared, const SpaceRef& space,
                                     std::span<const BlockKey> keys,
                                     std::span<std::byte* const> destinations,
                                     const GetOptions& options, Deadline deadline);

}  // namespace terrace::client
