// A pointer of 4 bytes between objects of one Region.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace terrace::storage {

// Objects that short pointers point to are aligned to this; with 32 bits they reach 16 GiB either
// way.
constexpr std::size_t short_pointer_alignment = 8;

// Holds the distance to its target, so both must lie in the same Region, and the target may not
// begin with the pointer itself. Null by default. Only a member of what lies there: there are no
// copies, which could be made on the stack; assigning one points to the same target.
template <typename T>
class ShortPointer {
 public:
  ShortPointer() = default;
  ShortPointer(const ShortPointer&) = delete;
  ShortPointer& operator=(const ShortPointer& other) { return *this = other.get(); }
  ShortPointer& operator=(T* target) {
    const std::intptr_t distance = target ? (reinterpret_cast<std::intptr_t>(target) - here()) /
                                                static_cast<std::intptr_t>(short_pointer_alignment)
                                          : 0;
    assert(distance == static_cast<std::int32_t>(distance) &&
           (distance != 0) == (target != nullptr));
    distance_ = static_cast<std::int32_t>(distance);
    return *this;
  }

  T* get() const {
    if (distance_ == 0) return nullptr;
    return reinterpret_cast<T*>(here() +
                                distance_ * static_cast<std::intptr_t>(short_pointer_alignment));
  }
  operator T*() const { return get(); }
  T* operator->() const { return get(); }
  T& operator*() const { return *get(); }

 private:
  std::intptr_t here() const {
    return reinterpret_cast<std::intptr_t>(this) &
           ~static_cast<std::intptr_t>(short_pointer_alignment - 1);
  }

  std::int32_t distance_ = 0;
};

}  // namespace terrace::storage
