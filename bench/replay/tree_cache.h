// One tier of a cache, without its bytes: the catalog, the candidates and the policies that the
// daemon has, fed with a trace.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bench/replay/trace.h"
#include "storage/catalog/catalog.h"
#include "storage/policy/candidates.h"
#include "storage/policy/policy_factory.h"

namespace terrace::bench {

class TreeCache {
 public:
  // `capacity` in blocks. `distinct`: of the trace's ids.
  TreeCache(storage::EvictionOrder order, std::size_t capacity, std::uint32_t distinct);
  ~TreeCache();

  // The length of the leading run of blocks that are there. All of the request's blocks are
  // afterwards, until blocks go because there are more than the capacity.
  std::size_t request(const TraceRequest& request);

 private:
  // Needs no slots.
  static constexpr Tier tier = Tier::disk;

  void use(storage::Block& block, storage::RequestNumber request, bool last);
  void count_child(storage::Block* parent, bool more);
  void evict_one();

  std::size_t capacity_, size_ = 0;
  std::vector<BlockKey> keys_;  // by id
  storage::Catalog catalog_;
  storage::SpaceEntry* space_ = nullptr;
  std::unique_ptr<storage::ReuseTracker> tracker_;  // null for other orders
  storage::Candidates candidates_;
  std::uint64_t recency_ = 0;
  std::vector<BlockKey> asked_;
  std::vector<storage::Block*> found_;
};

}  // namespace terrace::bench
