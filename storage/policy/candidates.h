// Keeps, for every tier, slot size and tenant, the blocks that may leave it in the order of the
// policy.
//
// A copy may leave a tier when nobody holds it, nothing is being copied from or to it, and
//  - no child has a copy in that tier: the tail of a prefix goes before its head;
//  - if it is the last copy of its block on this host, the block has no children here: no match
//    could reach them any more;
//  - it is not the last copy of a pinned block, nor in the tier that a pin keeps it in, nor the
//  copy
//    of a pinned block on disk.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "storage/catalog/catalog.h"
#include "storage/policy/eviction_policy.h"

namespace terrace::storage {

// Among which blocks one is chosen: of one size, of one tenant, or all.
struct Choice {
  std::optional<std::uint32_t> size_class;
  std::optional<TenantId> tenant;
  bool takes(const Shelf& shelf) const {
    return (!size_class || *size_class == shelf.size_class) && (!tenant || *tenant == shelf.tenant);
  }
};

class Candidates {
 public:
  // `shelves` outlives it.
  Candidates(const std::vector<Shelf>& shelves, bool has_host, bool has_disk,
             EvictionPolicyFactory factory)
      : shelves_(shelves), has_host_(has_host), has_disk_(has_disk), factory_(std::move(factory)) {}

  // Works out anew what may leave where. Call after anything about the block changed.
  void refresh(Block& block, std::uint32_t shelf) {
    for (std::size_t i = 0; i < local_tiers; ++i) {
      const auto tier = static_cast<Tier>(i);
      // Every hold of every block comes here, and most are of blocks in the middle of a prefix.
      const bool ruled_out = block.children_in(tier) > 0 || !block.has(tier);
      const Candidate now = ruled_out ? Candidate::no : judge(block, tier);
      if (now != block.candidate(tier)) set(block, shelf, tier, now);
    }
  }
  // Takes the block out everywhere, such as before its recency changes.
  void withdraw(Block& block, std::uint32_t shelf) {
    for (std::size_t i = 0; i < local_tiers; ++i)
      if (block.candidate(static_cast<Tier>(i)) != Candidate::no)
        set(block, shelf, static_cast<Tier>(i), Candidate::no);
  }
  // Likewise in one tier, before it loses its copy there: the order of what may leave the tier lies
  // in the slots.
  void withdraw(Block& block, std::uint32_t shelf, Tier tier);

  // The next to leave `tier`; null if none.
  Block* next(Tier tier, const Choice& choice, Candidate kind) const;
  std::size_t size(Tier tier, const Choice& choice, Candidate kind) const;
  // Whether refresh() would change nothing.
  bool up_to_date(const Block& block) const;
  // The one of the two that should go first; either may be null.
  Block* earlier(Block* a, Block* b) const;
  // Whether `a` should go before `b`.
  bool before(const Block& a, const Block& b) const;

 private:
  Candidate judge(const Block& block, Tier tier) const;
  void set(Block& block, std::uint32_t shelf, Tier tier, Candidate kind);
  EvictionPolicy& policy(Tier tier, std::uint32_t shelf, Candidate kind);
  const EvictionPolicy* find(Tier tier, std::uint32_t shelf, Candidate kind) const;

  const std::vector<Shelf>& shelves_;
  bool has_host_, has_disk_;
  EvictionPolicyFactory factory_;
  // [tier][shelf][kind]
  std::array<std::vector<std::array<std::unique_ptr<EvictionPolicy>, candidate_kinds>>, local_tiers>
      policies_;
};

}  // namespace terrace::storage
