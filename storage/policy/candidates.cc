#include "storage/policy/candidates.h"

namespace terrace::storage {

namespace {

// Of a slot that holds a copy.
bool may_go(const Slot* slot) { return slot->holders == 0 && slot->busy == 0; }

}  // namespace

Candidate Candidates::judge(const Block& block, Tier tier) const {
  if (block.children_in[static_cast<std::size_t>(tier)] > 0) return Candidate::no;
  const bool pinned = block.pin != PinFloor::none;
  const bool needed = pinned || !block.children.empty();  // if this is the last copy
  const bool disk_wants_it = has_disk_ && !block.disk_declined;
  switch (tier) {
    case Tier::device:
      if (!block.in_device() || !may_go(block.device) || block.pin == PinFloor::device)
        return Candidate::no;
      if (block.in_host()) return Candidate::settled;
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
  return needed ? Candidate::no : Candidate::settled;
}

void Candidates::set(Block& block, std::uint32_t size_class, Tier tier, Candidate now) {
  const Candidate was = block.candidate(tier);
  if (now == was) return;
  if (was != Candidate::no) policy(tier, size_class, was).erase(block);
  if (now != Candidate::no) policy(tier, size_class, now).insert(block);
  block.set_candidate(tier, now);
}

void Candidates::refresh(Block& block, std::uint32_t size_class) {
  for (std::size_t tier = 0; tier < local_tiers; ++tier)
    set(block, size_class, static_cast<Tier>(tier), judge(block, static_cast<Tier>(tier)));
}

void Candidates::withdraw(Block& block, std::uint32_t size_class) {
  for (std::size_t tier = 0; tier < local_tiers; ++tier)
    withdraw(block, size_class, static_cast<Tier>(tier));
}

void Candidates::withdraw(Block& block, std::uint32_t size_class, Tier tier) {
  set(block, size_class, tier, Candidate::no);
}

bool Candidates::up_to_date(const Block& block) const {
  for (std::size_t tier = 0; tier < local_tiers; ++tier)
    if (judge(block, static_cast<Tier>(tier)) != block.candidate(static_cast<Tier>(tier)))
      return false;
  return true;
}

EvictionPolicy& Candidates::policy(Tier tier, std::uint32_t size_class, Candidate kind) {
  auto& classes = policies_[static_cast<std::size_t>(tier)];
  if (classes.size() <= size_class) classes.resize(size_class + 1);
  auto& policy = classes[size_class][static_cast<std::size_t>(kind)];
  if (!policy) policy = factory_(tier);
  return *policy;
}

const EvictionPolicy* Candidates::find(Tier tier, std::uint32_t size_class, Candidate kind) const {
  const auto& classes = policies_[static_cast<std::size_t>(tier)];
  if (classes.size() <= size_class) return nullptr;
  return classes[size_class][static_cast<std::size_t>(kind)].get();
}

Block* Candidates::next(Tier tier, std::uint32_t size_class, Candidate kind) const {
  const EvictionPolicy* policy = find(tier, size_class, kind);
  return policy ? policy->next() : nullptr;
}

Block* Candidates::next(Tier tier, Candidate kind) const {
  Block* first = nullptr;
  const auto classes = policies_[static_cast<std::size_t>(tier)].size();
  for (std::uint32_t size_class = 0; size_class < classes; ++size_class)
    first = earlier(first, next(tier, size_class, kind));
  return first;
}

std::size_t Candidates::size(Tier tier, std::uint32_t size_class, Candidate kind) const {
  const EvictionPolicy* policy = find(tier, size_class, kind);
  return policy ? policy->size() : 0;
}

Block* Candidates::earlier(Block* a, Block* b) const {
  if (!a || !b) return a ? a : b;
  for (const auto& classes : policies_)
    for (const auto& kinds : classes)
      for (const auto& policy : kinds)
        if (policy) return policy->before(*a, *b) ? a : b;
  return a;
}

}  // namespace terrace::storage
