#include "storage/arena/slab_arena.h"

#include <algorithm>
#include <cassert>

namespace terrace::storage {

SlabArena::SlabArena(std::uint64_t capacity_bytes, std::uint64_t slab_bytes)
    : capacity_bytes_(capacity_bytes),
      slab_bytes_(std::max<std::uint64_t>(slab_bytes / slot_alignment_bytes, 1) *
                  slot_alignment_bytes) {
  for (std::uint64_t at = 0; at < capacity_bytes; at += slab_bytes_)
    slabs_.push_back({.bytes = std::min(slab_bytes_, capacity_bytes - at)});
  // The last slab, maybe too small for some sizes, is at the front and so taken last.
  for (std::uint32_t i = static_cast<std::uint32_t>(slabs_.size()); i-- > 0;)
    unassigned_.push_back(i);
}

std::optional<std::uint64_t> SlabArena::allocate(std::uint64_t slot_bytes) {
  assert(slot_bytes > 0 && slot_bytes % slot_alignment_bytes == 0);
  Size& size = sizes_[slot_bytes];
  if (size.with_free_slots.empty()) {
    const std::uint32_t taken = take_unassigned(slot_bytes);
    if (taken == none) return std::nullopt;
    Slab& slab = slabs_[taken];
    slab.slot_bytes = slot_bytes;
    slab.slots = static_cast<std::uint32_t>(slab.bytes / slot_bytes);
    size.slots += slab.slots;
    add_to_list(size, taken);
  }
  const std::uint32_t index = size.with_free_slots.back();
  Slab& slab = slabs_[index];
  std::uint32_t slot;
  if (slab.returned.empty()) {
    slot = slab.fresh++;
  } else {
    slot = slab.returned.back();
    slab.returned.pop_back();
  }
  ++slab.used;
  ++size.used;
  used_bytes_ += slot_bytes;
  if (slab.used == slab.slots) remove_from_list(size, index);
  return index * slab_bytes_ + slot * slot_bytes;
}

void SlabArena::free(std::uint64_t offset) {
  const auto index = static_cast<std::uint32_t>(offset / slab_bytes_);
  Slab& slab = slabs_[index];
  assert(slab.slot_bytes > 0 && slab.used > 0);
  used_bytes_ -= slab.slot_bytes;
  const bool was_full = slab.used-- == slab.slots;
  if (slab.used > 0)
    slab.returned.push_back(
        static_cast<std::uint32_t>((offset - index * slab_bytes_) / slab.slot_bytes));
  if (!slab.closed) {
    Size& size = sizes_[slab.slot_bytes];
    --size.used;
    if (was_full) add_to_list(size, index);
    if (slab.used == 0) {
      remove_from_list(size, index);
      size.slots -= slab.slots;
    }
  }
  if (slab.used == 0) unassign(index);
}

void SlabArena::unassign(std::uint32_t index) {
  Slab& slab = slabs_[index];
  slab.slot_bytes = 0;
  slab.slots = slab.fresh = 0;
  slab.closed = false;
  slab.returned.clear();
  unassigned_.push_back(index);
}

std::vector<std::uint32_t> SlabArena::emptiest_slabs(std::uint64_t slot_bytes,
                                                     std::size_t limit) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t i = 0; i < slabs_.size(); ++i) {
    const Slab& slab = slabs_[i];
    if (slab.slot_bytes == 0 || slab.slot_bytes == slot_bytes || slab.closed ||
        slab.bytes < slot_bytes || slab.used > slab.slots / 2)
      continue;
    const Size& size = sizes_.at(slab.slot_bytes);
    const std::uint64_t free_elsewhere = (size.slots - size.used) - (slab.slots - slab.used);
    if (free_elsewhere >= slab.used) found.push_back(i);
  }
  const std::size_t kept = std::min(limit, found.size());
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(kept), found.end(),
                    [this](std::uint32_t a, std::uint32_t b) {
                      return slabs_[a].used * slabs_[a].slot_bytes <
                             slabs_[b].used * slabs_[b].slot_bytes;
                    });
  found.resize(kept);
  return found;
}

void SlabArena::close(std::uint32_t index) {
  Slab& slab = slabs_[index];
  assert(slab.used > 0 && !slab.closed);
  Size& size = sizes_[slab.slot_bytes];
  if (slab.used < slab.slots) remove_from_list(size, index);
  size.slots -= slab.slots;
  size.used -= slab.used;
  slab.closed = true;
}

void SlabArena::open(std::uint32_t index) {
  Slab& slab = slabs_[index];
  if (!slab.closed) return;
  slab.closed = false;
  Size& size = sizes_[slab.slot_bytes];
  size.slots += slab.slots;
  size.used += slab.used;
  if (slab.used < slab.slots) add_to_list(size, index);
}

SlabArena::Slots SlabArena::slots_of(std::uint32_t index) const {
  return {index * slab_bytes_, slabs_[index].slot_bytes, slabs_[index].slots};
}

std::uint64_t SlabArena::used_slots(std::uint64_t slot_bytes) const {
  const auto found = sizes_.find(slot_bytes);
  return found == sizes_.end() ? 0 : found->second.used;
}

std::uint64_t SlabArena::free_slots(std::uint64_t slot_bytes) const {
  std::uint64_t free = 0;
  if (const auto found = sizes_.find(slot_bytes); found != sizes_.end())
    free = found->second.slots - found->second.used;
  if (unassigned_.empty()) return free;
  const bool last_is_free = slabs_.back().slot_bytes == 0;
  return free + (unassigned_.size() - last_is_free) * (slab_bytes_ / slot_bytes) +
         (last_is_free ? slabs_.back().bytes / slot_bytes : 0);
}

std::uint64_t SlabArena::total_slots(std::uint64_t slot_bytes) const {
  if (slabs_.empty()) return 0;
  return (slabs_.size() - 1) * (slab_bytes_ / slot_bytes) + slabs_.back().bytes / slot_bytes;
}

void SlabArena::add_to_list(Size& size, std::uint32_t slab) {
  slabs_[slab].place = static_cast<std::uint32_t>(size.with_free_slots.size());
  size.with_free_slots.push_back(slab);
}

void SlabArena::remove_from_list(Size& size, std::uint32_t slab) {
  const std::uint32_t place = slabs_[slab].place;
  const std::uint32_t last = size.with_free_slots.back();
  size.with_free_slots[place] = last;
  slabs_[last].place = place;
  size.with_free_slots.pop_back();
  slabs_[slab].place = none;
}

std::uint32_t SlabArena::take_unassigned(std::uint64_t slot_bytes) {
  // All but one slab are of one size, so this looks at two at most.
  for (std::size_t i = unassigned_.size(); i-- > 0;) {
    const std::uint32_t index = unassigned_[i];
    if (slabs_[index].bytes < slot_bytes) continue;
    unassigned_.erase(unassigned_.begin() + static_cast<std::ptrdiff_t>(i));
    return index;
  }
  return none;
}

}  // namespace terrace::storage
