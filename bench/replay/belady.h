// The best that any policy could do, by knowing the future.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/replay/trace.h"

namespace terrace::bench {

// How many blocks of all requests are found as part of the leading run of resident blocks, if after
// each request the blocks whose next use is farthest away go until `capacity` are left. A block is
// never used later than those below it, so that among equals the deepest goes first and no resident
// block is ever out of reach.
// L. A. Belady, "A study of replacement algorithms for a virtual-storage computer", 1966.
std::uint64_t belady_hits(const Trace& trace, std::size_t capacity);

}  // namespace terrace::bench
