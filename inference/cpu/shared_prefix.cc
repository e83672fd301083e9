#include "inference/cpu/shared_prefix.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace terrace::inference {

namespace {

using Tables = std::span<const std::span<std::byte* const>>;

// How many blocks from `first` on all of `sequences` have in common.
std::size_t common_blocks(Tables tables, std::span<const std::uint32_t> sequences,
                          std::size_t first) {
  const auto model = tables[sequences[0]].subspan(first);
  std::size_t common = model.size();
  for (const std::uint32_t sequence : sequences.subspan(1)) {
    const auto other = tables[sequence].subspan(first);
    const auto end = model.begin() + static_cast<std::ptrdiff_t>(std::min(common, other.size()));
    common = static_cast<std::size_t>(std::mismatch(model.begin(), end, other.begin()).first -
                                      model.begin());
  }
  return common;
}

// Appends to `runs` what the sequences that have a block `first` share from it on. Those who share
// a run stand together in `sequences` afterwards.
void split_at(Tables tables, std::vector<std::uint32_t> sequences, std::size_t first,
              std::size_t least_sequences, std::vector<SharedRun>& runs) {
  std::erase_if(sequences, [&](std::uint32_t s) { return tables[s].size() <= first; });
  const auto block = [&](std::uint32_t sequence) { return tables[sequence][first]; };
  std::stable_sort(sequences.begin(), sequences.end(), [&](std::uint32_t a, std::uint32_t b) {
    return std::less<const std::byte*>()(block(a), block(b));
  });
  for (auto begin = sequences.begin(); begin != sequences.end();) {
    const auto end = std::find_if(begin, sequences.end(), [&](std::uint32_t sequence) {
      return block(sequence) != block(*begin);
    });
    if (static_cast<std::size_t>(end - begin) >= least_sequences) {
      SharedRun run{{begin, end}, first, first};
      run.last_block += common_blocks(tables, run.sequences, first);
      runs.push_back(std::move(run));
    }
    begin = end;
  }
}

}  // namespace

std::vector<std::vector<SharedRun>> find_shared_runs(Tables tables, std::size_t least_sequences) {
  std::vector<std::vector<SharedRun>> levels;
  if (tables.size() < least_sequences) return levels;
  std::vector<std::uint32_t> all(tables.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<SharedRun> runs;
  split_at(tables, std::move(all), 0, least_sequences, runs);
  while (!runs.empty()) {
    levels.push_back(std::move(runs));
    runs.clear();
    for (const SharedRun& run : levels.back())
      split_at(tables, run.sequences, run.last_block, least_sequences, runs);
  }
  return levels;
}

}  // namespace terrace::inference
