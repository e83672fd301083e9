// Hands out slots of an arena. The arena is cut into slabs; a slab belongs to one slot size while
// any of its slots is in use and to nobody otherwise, so that the memory of a model that is no
// longer served can serve another. Only numbers: the bytes themselves are elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace terrace::storage {

// Slots start and end on pages: direct I/O reads straight into them.
constexpr std::uint64_t slot_alignment_bytes = 4096;

class SlabArena {
 public:
  // Slabs of `slab_bytes` and, where `capacity_bytes` is no multiple of that, a smaller last one.
  SlabArena(std::uint64_t capacity_bytes, std::uint64_t slab_bytes);

  // Offset of a free slot of `slot_bytes` bytes (a multiple of slot_alignment_bytes), now in use;
  // nothing if there is none. O(1) but for finding the size.
  std::optional<std::uint64_t> allocate(std::uint64_t slot_bytes);
  // Takes back a slot. `offset` came from allocate() and is in use.
  void free(std::uint64_t offset);

  // Slabs that the moving of few blocks would give to slots of `slot_bytes`: of another size, at
  // most half in use, with room for what is in them in other slabs of their size. The emptiest
  // first, at most `limit`. Looks at all slabs.
  std::vector<std::uint32_t> emptiest_slabs(std::uint64_t slot_bytes, std::size_t limit) const;
  // A closed slab is in use and gives no slots; it belongs to nobody once the last is returned.
  void close(std::uint32_t slab);
  // Ends that; nothing if the slab is not closed.
  void open(std::uint32_t slab);
  struct Slots {
    std::uint64_t first = 0, slot_bytes = 0;
    std::uint32_t count = 0;
  };
  // Where the slots of a slab lie, in use or not.
  Slots slots_of(std::uint32_t slab) const;

  std::uint64_t capacity_bytes() const { return capacity_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  std::uint64_t used_slots(std::uint64_t slot_bytes) const;
  // How many slots of this size allocate() would still give, slabs of nobody included.
  std::uint64_t free_slots(std::uint64_t slot_bytes) const;
  // How many slots of this size the whole arena could hold.
  std::uint64_t total_slots(std::uint64_t slot_bytes) const;

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  struct Slab {
    std::uint64_t bytes = 0;
    std::uint64_t slot_bytes = 0;  // 0: belongs to nobody
    std::uint32_t slots = 0;
    std::uint32_t used = 0;
    std::uint32_t fresh = 0;  // slots from here on were never handed out since the assignment
    std::vector<std::uint32_t> returned;
    bool closed = false;         // its slots are counted in no size
    std::uint32_t place = none;  // in the list of its size's slabs with free slots
  };
  struct Size {
    std::vector<std::uint32_t> with_free_slots;
    std::uint64_t used = 0, slots = 0;
  };

  void add_to_list(Size& size, std::uint32_t slab);
  void remove_from_list(Size& size, std::uint32_t slab);
  std::uint32_t take_unassigned(std::uint64_t slot_bytes);
  void unassign(std::uint32_t slab);

  std::uint64_t capacity_bytes_;
  std::uint64_t slab_bytes_;
  std::uint64_t used_bytes_ = 0;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> unassigned_;
  std::map<std::uint64_t, Size> sizes_;
};

}  // namespace terrace::storage
