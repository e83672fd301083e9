// `terrace warm`: brings prefixes into the device tier before somebody asks for them.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "client/cli/listing.h"
#include "client/operator.h"

namespace terrace::cli {

// A prefix from its head to its tail.
struct WarmPrefix {
  BlockKey space;
  std::vector<BlockKey> keys;
  std::uint64_t recency = 0;
};

struct WarmSelection {
  bool all = false;
  bool pinned = false;
  std::optional<std::size_t> hottest;  // so many prefixes, the most recently used
  std::optional<BlockKey> space;       // only of this one
};

// The prefixes of a listing that are chosen and not whole in the device tier, the most recently
// used first. `pins` are the last keys of pinned prefixes.
std::vector<WarmPrefix> choose_prefixes(const Listing& listing, const WarmSelection& selection,
                                        const std::vector<BlockKey>& pins);

struct WarmOutcome {
  std::size_t prefixes = 0, whole = 0;            // asked for; now whole in the device tier
  std::size_t blocks = 0, there = 0, loaded = 0;  // asked for; there before; brought
};

// Warms one prefix after the other and shows how far it is on `progress`, a line that is written
// over (null: not at all). Stops at the first error. `report` gets a line of JSON a block (null:
// none).
Result<WarmOutcome> warm_prefixes(client::OperatorClient& daemon,
                                  const std::vector<WarmPrefix>& prefixes, std::ostream* progress,
                                  std::ostream* report);

}  // namespace terrace::cli
