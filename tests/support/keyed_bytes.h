// Bytes of a block that tell which block they are: its key, again and again.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>

#include "core/block_key.h"

namespace terrace::test_support {

// `block` is a whole number of keys long.
inline void fill_with_key(std::span<std::byte> block, const BlockKey& key) {
  for (std::size_t at = 0; at < block.size(); at += sizeof key.bytes)
    std::memcpy(block.data() + at, key.bytes.data(), sizeof key.bytes);
}

inline bool holds_key(std::span<const std::byte> block, const BlockKey& key) {
  for (std::size_t at = 0; at < block.size(); at += sizeof key.bytes)
    if (std::memcmp(block.data() + at, key.bytes.data(), sizeof key.bytes) != 0) return false;
  return true;
}

}  // namespace terrace::test_support
