// `terrace warm`: brings prefixes into the device or the host tier before somebody asks for them.
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
  // Of all keys, or none: with them the daemon asks Redis for what it does not know of.
  std::vector<Token> tokens = {};
  std::uint64_t recency = 0;
  bool whole = true;  // in the tier that it is to come to, or a higher one, already
};

struct WarmSelection {
  // Only the prefixes that end in one of these blocks; absent: all that nothing follows.
  std::optional<std::vector<BlockKey>> tails;
  std::optional<std::size_t> hottest;  // so many prefixes, the most recently used
  std::optional<BlockKey> space;       // only of this one
  Tier into = Tier::device;            // or host
};

struct WarmChoice {
  std::vector<WarmPrefix> prefixes;  // the most recently used first
  std::size_t whole_already = 0;     // chosen, too, but there from head to tail
};

// Those prefixes of a listing that the selection takes.
WarmChoice choose_prefixes(const Listing& listing, const WarmSelection& selection);

struct WarmedBlock {
  BlockKey key;
  std::optional<Tier> from;  // where it was; absent: it did not come
};

struct WarmOutcome {
  Tier into = Tier::device;
  std::size_t prefixes = 0, whole = 0;  // asked for; now whole in that tier, or above
  std::vector<WarmedBlock> blocks;      // each once
  std::size_t there() const;
  std::size_t brought() const;
};

// Warms one prefix after the other and shows how far it is on `progress`, a line that is written
// over (null: not at all). Stops at the first error.
Result<WarmOutcome> warm_prefixes(client::OperatorClient& daemon,
                                  const std::vector<WarmPrefix>& prefixes, Tier into,
                                  std::ostream* progress);

// What would be done, or was done: for people, or as one JSON object.
void print_warm_plan(const WarmChoice& choice, Tier into, bool json, std::ostream& out);
void print_warm_outcome(const WarmOutcome& outcome, std::size_t whole_already, bool json,
                        std::ostream& out);

}  // namespace terrace::cli
