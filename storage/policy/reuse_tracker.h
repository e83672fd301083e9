// What a cache tells of its requests, so that the reuse index learns from them: uses of blocks that
// are there, and of some that no longer are.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "storage/catalog/block.h"
#include "storage/policy/ghost_table.h"
#include "storage/policy/reuse_guard.h"
#include "storage/policy/reuse_model.h"

namespace terrace::storage {

ReuseState reuse_state(const Block& block);

class ReuseTracker {
 public:
  const ReuseModel& model() const { return model_; }

  // Time is counted in these. What belongs to a request may come at any time, whatever has begun
  // since.
  RequestNumber begin_request() { return model_.begin_request(); }

  // Blocks that `request` asked for, a run of a prompt, are not known. They may have been once:
  // then what is remembered goes on with it, and is the block's if it comes.
  void miss(std::span<const BlockKey> keys, RequestNumber request);
  // A block is used, or new; no policy holds it. `last`: none below it is used by that request, as
  // far as is known.
  void use(Block& block, RequestNumber request, bool last);
  // Whether use() said so. It may turn out to be wrong; no policy holds the block then.
  bool is_last(const Block& block, RequestNumber request) const;
  void set_not_last(Block& block);
  // A block is known from an earlier run of the program. No policy holds it.
  void recover(Block& block);
  // A block leaves the catalog.
  void remove(const Block& block);

  // How many blocks a tier has room for, once it is full, and how many are known in all.
  void set_capacity(Tier tier, std::size_t blocks, std::size_t known_blocks);
  // Whether the least recent should leave `tier` first for now, since the index does worse there.
  bool prefers_recency(Tier tier) const {
    const auto& guard = guards_[static_cast<std::size_t>(tier)];
    return guard && guard->prefers_recency();
  }

 private:
  void forget_excess();

  ReuseModel model_;
  GhostTable ghosts_;
  std::array<std::unique_ptr<ReuseGuard>, local_tiers> guards_;
};

}  // namespace terrace::storage
