// Copy on write: the first tokens of a sealed block, for a sequence that goes on differently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/kv_layout.h"

namespace terrace::inference {

// Copies the KV of the first `tokens` tokens of the block at `from` to the zeroed block at `to`,
// which is then as if they had been computed into it: nothing of later tokens is copied.
void copy_leading_tokens(const KvGeometry& geometry, std::uint32_t tokens,
                         std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace terrace::inference
