#include "inference/model/copy_tokens.h"

#include <algorithm>
#include <cstring>

namespace terrace::inference {

namespace {

// Tokens lie side by side within each row of a tile of keys.
void copy_keys(std::size_t rows, std::size_t token_bytes, std::size_t tokens, const std::byte* from,
               std::byte* to) {
  const std::size_t row_bytes = chunk_tokens * token_bytes;
  for (std::size_t row = 0; row < rows; ++row)
    std::memcpy(to + row * row_bytes, from + row * row_bytes, tokens * token_bytes);
}

// One behind the other in a tile of values, `together` of them interleaved.
void copy_values(std::size_t dims, std::size_t value_bytes, std::size_t together,
                 std::size_t tokens, const std::byte* from, std::byte* to) {
  const std::size_t group_bytes = dims * together * value_bytes;
  const std::size_t whole = tokens / together * group_bytes;
  std::memcpy(to, from, whole);
  const std::size_t left = tokens % together * value_bytes;
  if (left == 0) return;
  for (std::size_t dim = 0; dim < dims; ++dim) {
    const std::size_t at = whole + dim * together * value_bytes;
    std::memcpy(to + at, from + at, left);
  }
}

}  // namespace

void copy_leading_tokens(const KvGeometry& geometry, std::uint32_t tokens,
                         std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t dims = geometry.padded_head_dim();
  const std::size_t value_bytes = kv_dtype_bytes(geometry.dtype);
  // BF16 is read in pairs: two dims of a key, two tokens of a value (core/kv_layout.h).
  const std::size_t together = geometry.dtype == KvDtype::bf16 ? 2 : 1;
  for (std::uint32_t chunk = 0; chunk * chunk_tokens < tokens; ++chunk) {
    const std::size_t count = std::min<std::size_t>(chunk_tokens, tokens - chunk * chunk_tokens);
    for (std::uint32_t layer = 0; layer < geometry.layers; ++layer)
      for (std::uint32_t head = 0; head < geometry.kv_heads; ++head) {
        const std::size_t k = geometry.tile_offset(layer, 0, head, chunk);
        const std::size_t v = geometry.tile_offset(layer, 1, head, chunk);
        copy_keys(dims / together, together * value_bytes, count, &from[k], &to[k]);
        copy_values(dims, value_bytes, together, count, &from[v], &to[v]);
      }
  }
}

}  // namespace terrace::inference
