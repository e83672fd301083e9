#include "inference/paged_kv/private_memory.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "core/bytes.h"

namespace terrace::inference {

Result<KvBlockRef> PrivateMemory::allocate(std::size_t bytes) {
  constexpr std::size_t alignment = 4 * kib;
  const std::size_t rounded = round_up(bytes, alignment);
  if (used_bytes_.fetch_add(rounded) + rounded > limit_bytes_) {
    used_bytes_.fetch_sub(rounded);
    return error(StatusCode::resource_exhausted,
                 "KV memory is full: all of its " + format_bytes(limit_bytes_) + " are in use");
  }
  auto* const address = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (address == nullptr) {
    used_bytes_.fetch_sub(rounded);
    return error(StatusCode::resource_exhausted,
                 "no memory for a KV block of " + format_bytes(bytes));
  }
  std::memset(address, 0, bytes);
  std::shared_ptr<const void> memory(address, [this, rounded](const void* allocated) {
    std::free(const_cast<void*>(allocated));
    used_bytes_.fetch_sub(rounded);
  });
  return std::make_shared<const KvBlock>(KvBlock{address, {}, std::move(memory)});
}

}  // namespace terrace::inference
