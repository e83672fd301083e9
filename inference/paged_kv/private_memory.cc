#include "inference/paged_kv/private_memory.h"

#include <string>
#include <utility>

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
  auto block = memory_.allocate(bytes);
  if (!block) {
    used_bytes_.fetch_sub(rounded);
    return error(block.error());
  }
  std::byte* const address = block->get();
  std::shared_ptr<const void> memory(address, [this, rounded, held = *block](const void*) mutable {
    held.reset();
    used_bytes_.fetch_sub(rounded);
  });
  return std::make_shared<const KvBlock>(KvBlock{address, {}, std::move(memory)});
}

}  // namespace terrace::inference
