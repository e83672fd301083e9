// Made-up traces of very different habits of reuse, to see that a policy which learned one of them
// does no harm in another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "bench/replay/trace.h"

namespace terrace::bench {

struct SyntheticTrace {
  std::string_view name;
  std::string_view what;
  Trace (*make)(std::uint64_t seed, std::size_t requests);
};

// Each the same for the same seed and length.
std::span<const SyntheticTrace> synthetic_traces();

}  // namespace terrace::bench
