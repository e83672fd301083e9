#include "inference/model/kv_memory.h"

#include <cstdlib>
#include <cstring>

#include "core/bytes.h"
#include "inference/model/copy_tokens.h"

namespace terrace::inference {

namespace {

class HostKvMemory final : public KvMemory {
 public:
  Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) override {
    constexpr std::size_t alignment = 4 * kib;
    auto* const block =
        static_cast<std::byte*>(std::aligned_alloc(alignment, round_up(bytes, alignment)));
    if (block == nullptr)
      return error(StatusCode::resource_exhausted,
                   "no memory for a KV block of " + format_bytes(bytes));
    std::memset(block, 0, bytes);
    return std::shared_ptr<std::byte>(block, [](std::byte* memory) { std::free(memory); });
  }
  Status zero(std::byte* block, std::size_t bytes) override {
    std::memset(block, 0, bytes);
    return {};
  }
  Status copy_leading_tokens(const KvGeometry& geometry, std::uint32_t tokens,
                             const std::byte* from, std::byte* to) override {
    const std::size_t bytes = geometry.block_bytes();
    inference::copy_leading_tokens(geometry, tokens, {from, bytes}, {to, bytes});
    return {};
  }
};

}  // namespace

KvMemory& host_kv_memory() {
  static HostKvMemory memory;
  return memory;
}

}  // namespace terrace::inference
