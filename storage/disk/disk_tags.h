// What a completion of the ring belongs to, packed into its tag.
#pragma once

#include <cstdint>

namespace terrace::storage {

enum class TagKind : std::uint8_t { read, write, sync, clear };

constexpr unsigned tag_kind_shift = 56;

// `id` < 2^56: the number of an operation, of a data file, of a clear.
constexpr std::uint64_t make_tag(TagKind kind, std::uint64_t id) {
  return static_cast<std::uint64_t>(kind) << tag_kind_shift | id;
}
constexpr TagKind tag_kind(std::uint64_t tag) {
  return static_cast<TagKind>(tag >> tag_kind_shift);
}
constexpr std::uint64_t tag_id(std::uint64_t tag) {
  return tag & ((std::uint64_t{1} << tag_kind_shift) - 1);
}

}  // namespace terrace::storage
