// The name of a block: it says which tokens, after which prefix, in which space.
#pragma once

#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/sha256.h"

namespace terrace {

using Token = std::int32_t;

// 32 bytes of SHA-256, uniformly distributed. A value type.
struct BlockKey {
  Digest bytes{};

  auto operator<=>(const BlockKey&) const = default;
  // Without the call that comparing arrays is: look-ups in tables do little else.
  bool operator==(const BlockKey& other) const {
    std::uint64_t differ = 0;
    for (std::size_t at = 0; at < sizeof bytes; at += sizeof differ) {
      std::uint64_t mine, theirs;
      std::memcpy(&mine, bytes.data() + at, sizeof mine);
      std::memcpy(&theirs, other.bytes.data() + at, sizeof theirs);
      differ |= mine ^ theirs;
    }
    return differ == 0;
  }
  std::string hex() const;
};

// The key of the block of `tokens` that follows the block named `parent`. The first block of a
// prefix has the space's digest as its parent. `extra` are digests of whatever else decides the KV
// bytes: images, a salt.
BlockKey derive_block_key(const BlockKey& parent, std::span<const Token> tokens,
                          std::span<const std::string> extra = {});

// The keys of every full block of `tokens`, in order: tokens.size() / block_tokens of them.
std::vector<BlockKey> derive_block_keys(const BlockKey& space_digest, std::span<const Token> tokens,
                                        std::uint32_t block_tokens);

}  // namespace terrace

template <>
struct std::hash<terrace::BlockKey> {
  // A key is a digest already: its first bytes are as good as any hash of it.
  std::size_t operator()(const terrace::BlockKey& key) const noexcept {
    std::size_t value;
    std::memcpy(&value, key.bytes.data(), sizeof value);
    return value;
  }
};
