#include "bench/replay/belady.h"

#include <queue>
#include <tuple>
#include <vector>

namespace terrace::bench {

namespace {
constexpr std::uint32_t never = UINT32_MAX;
}

std::uint64_t belady_hits(const Trace& trace, std::size_t capacity) {
  // The request that uses each block of each request next.
  std::vector<std::vector<std::uint32_t>> next_use(trace.requests.size());
  std::vector<std::uint32_t> later(trace.distinct, never);
  for (std::size_t r = trace.requests.size(); r-- > 0;)
    for (const std::uint32_t id : trace.requests[r].blocks) {
      next_use[r].push_back(later[id]);
      later[id] = static_cast<std::uint32_t>(r);
    }

  struct Resident {
    bool here = false;
    std::uint32_t next = never;
  };
  std::vector<Resident> residents(trace.distinct);
  // Next use, depth, id; the first to go on top. What was used since is still in and passed over.
  std::priority_queue<std::tuple<std::uint32_t, std::size_t, std::uint32_t>> order;
  std::uint64_t hits = 0;
  std::size_t resident = 0;
  for (std::size_t r = 0; r < trace.requests.size(); ++r) {
    const auto& blocks = trace.requests[r].blocks;
    for (std::size_t i = 0; i < blocks.size() && residents[blocks[i]].here; ++i) ++hits;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      Resident& block = residents[blocks[i]];
      resident += !block.here;
      block = {true, next_use[r][i]};
      order.emplace(block.next, i, blocks[i]);
    }
    while (resident > capacity) {
      const auto [next, depth, id] = order.top();
      order.pop();
      if (!residents[id].here || residents[id].next != next) continue;
      residents[id].here = false;
      --resident;
    }
  }
  return hits;
}

}  // namespace terrace::bench
