// Which sequences of a pass begin with the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace terrace::inference {

// Whether blocks that decoding sequences share are read once for all of them. It changes no bit of
// a result.
enum class SharedPrefixes { together, apart };

// Consecutive blocks that several sequences have in common, and who they are.
struct SharedRun {
  std::vector<std::uint32_t> sequences;  // indices into what was asked about, ascending
  std::size_t first_block, last_block;   // blocks [first_block, last_block) of each of them
};

// Runs of blocks that at least `least_sequences` (at least two) of the tables have in common from
// their first block on, by level: a run of level 0 begins with block 0; a run of level n + 1 lies
// right behind one of level n, and its sequences are some of that one's. Blocks are the same if
// their addresses are. The tables hold only what may be shared.
std::vector<std::vector<SharedRun>> find_shared_runs(
    std::span<const std::span<std::byte* const>> tables, std::size_t least_sequences);

}  // namespace terrace::inference
