#include "storage/policy/candidates.h"

namespace terrace::storage {

namespace {

// Of a slot that holds a copy.
bool may_go(const Slot* slot) { return slot->holders == 0 && slot->busy == 0; }

}  // namespace

Candidate Candidates::judge(const Block& block, Tier tier) const {
  if (block.children_in(tier) > 0) return Candidate::no;
  const bool pinned = block.pin != PinFloor::none;
  const bool needed = pinned || anchors_others(block);  // if this is the last copy
  const bool disk_wants_it = has_disk_ && !block.disk_declined;
  switch (tier) {
    case Tier::device:
      if (!block.in_device() || !may_go(block.device) || block.pin == PinFloor::device)
        return Candidate::no;
      if (block.in_host()) return Candidate::settled;
      // A copy to the host is under way, from a slot that was found wrong meanwhile: a second one
      // would take its place.
      if (block.host) return Candidate::no;
      if (block.pin == PinFloor::host)
        return has_host_ && !block.host_declined ? Candidate::anchored : Candidate::no;
      if (has_host_ && !block.host_declined) {
        if (block.on_disk()) return Candidate::droppable;
        return needed ? Candidate::anchored : Candidate::dirty;
      }
      break;
    case Tier::host:
      if (!block.in_host() || !may_go(block.host) || block.pin == PinFloor::host)
        return Candidate::no;
      if (block.in_device()) return Candidate::droppable;
      break;
    case Tier::disk:
      if (!block.on_disk() || block.disk_reads > 0 || pinned) return Candidate::no;
      return block.in_device() || block.in_host() || !needed ? Candidate::settled : Candidate::no;
    case Tier::redis:
      return Candidate::no;
  }
  if (block.on_disk()) return Candidate::settled;
  if (disk_wants_it && block.write_queued) return needed ? Candidate::no : Candidate::queued;
  if (disk_wants_it) return needed ? Candidate::anchored : Candidate::dirty;
  if (!needed) return Candidate::settled;
  return pinned ? Candidate::no : Candidate::stuck;
}

void Candidates::set(Block& block, std::uint32_t shelf, Tier tier, Candidate now) {
  const Candidate was = block.candidate(tier);
  if (now == was) return;
  if (was != Candidate::no) policy(tier, shelf, was).erase(block);
  if (now != Candidate::no) policy(tier, shelf, now).insert(block);
  block.set_candidate(tier, now);
}

void Candidates::withdraw(Block& block, std::uint32_t shelf, Tier tier) {
  set(block, shelf, tier, Candidate::no);
}

bool Candidates::up_to_date(const Block& block) const {
  for (std::size_t tier = 0; tier < local_tiers; ++tier)
    if (judge(block, static_cast<Tier>(tier)) != block.candidate(static_cast<Tier>(tier)))
      return false;
  return true;
}

EvictionPolicy& Candidates::policy(Tier tier, std::uint32_t shelf, Candidate kind) {
  auto& shelves = policies_[static_cast<std::size_t>(tier)];
  if (shelves.size() <= shelf) shelves.resize(shelf + 1);
  auto& policy = shelves[shelf][static_cast<std::size_t>(kind)];
  if (!policy) policy = factory_(tier);
  return *policy;
}

const EvictionPolicy* Candidates::find(Tier tier, std::uint32_t shelf, Candidate kind) const {
  const auto& shelves = policies_[static_cast<std::size_t>(tier)];
  if (shelves.size() <= shelf) return nullptr;
  return shelves[shelf][static_cast<std::size_t>(kind)].get();
}

Block* Candidates::next(Tier tier, const Choice& choice, Candidate kind) const {
  Block* first = nullptr;
  for (std::uint32_t shelf = 0; shelf < shelves_.size(); ++shelf) {
    if (!choice.takes(shelves_[shelf])) continue;
    const EvictionPolicy* policy = find(tier, shelf, kind);
    if (policy) first = earlier(first, policy->next());
  }
  return first;
}

std::size_t Candidates::size(Tier tier, const Choice& choice, Candidate kind) const {
  std::size_t sum = 0;
  for (std::uint32_t shelf = 0; shelf < shelves_.size(); ++shelf) {
    if (!choice.takes(shelves_[shelf])) continue;
    const EvictionPolicy* policy = find(tier, shelf, kind);
    if (policy) sum += policy->size();
  }
  return sum;
}

Block* Candidates::earlier(Block* a, Block* b) const {
  if (!a || !b) return a ? a : b;
  return before(*a, *b) ? a : b;
}

bool Candidates::before(const Block& a, const Block& b) const {
  for (const auto& classes : policies_)
    for (const auto& kinds : classes)
      for (const auto& policy : kinds)
        if (policy) return policy->before(a, b);
  return true;
}

}  // namespace terrace::storage
