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
  bool whole = true;  // in the device tier already
};

struct WarmSelection {
  bool pinned = false;
  std::optional<std::size_t> hottest;  // so many prefixes, the most recently used
  std::optional<BlockKey> space;       // only of this one
};

struct WarmChoice {
  std::vector<WarmPrefix> prefixes;  // the most recently used first
  std::size_t whole_already = 0;     // chosen, too, but in the device tier from head to tail
};

// Those prefixes of a listing that the selection takes; without a restriction, all. `pins` are the
// last keys of pinned prefixes.
WarmChoice choose_prefixes(const Listing& listing, const WarmSelection& selection,
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
