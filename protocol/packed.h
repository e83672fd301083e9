// Packed Data fields of the protocol: what lies in them, read without a copy.
//
// A message's segments are 8-byte aligned and so is every Data in them, hence the numbers can be
// looked at in place.
#pragma once

#include <capnp/blob.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "core/block_key.h"

namespace terrace::protocol {

static_assert(std::endian::native == std::endian::little, "packed fields are little endian");
static_assert(sizeof(BlockKey) == 32 && alignof(BlockKey) == 1);

// The elements of a packed field, valid as long as the message; absent if its size or place does
// not fit them.
template <typename T>
std::optional<std::span<const T>> unpack(capnp::Data::Reader data) {
  if (data.size() % sizeof(T) != 0) return std::nullopt;
  if (reinterpret_cast<std::uintptr_t>(data.begin()) % alignof(T) != 0) return std::nullopt;
  return std::span<const T>(reinterpret_cast<const T*>(data.begin()), data.size() / sizeof(T));
}

// A packed field to copy into a message.
template <typename T>
capnp::Data::Reader pack(std::span<const T> values) {
  return {reinterpret_cast<const kj::byte*>(values.data()), values.size_bytes()};
}

inline capnp::Data::Reader pack(const Digest& digest) { return {digest.data(), digest.size()}; }
inline capnp::Data::Reader pack(const BlockKey& key) { return pack(key.bytes); }

// A digest of exactly 32 bytes.
inline std::optional<BlockKey> unpack_key(capnp::Data::Reader data) {
  BlockKey key;
  if (data.size() != key.bytes.size()) return std::nullopt;
  std::memcpy(key.bytes.data(), data.begin(), key.bytes.size());
  return key;
}

}  // namespace terrace::protocol
