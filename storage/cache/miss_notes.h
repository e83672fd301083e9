// What last kept blocks from being had, for those that are asked room for afterwards. A table of
// fixed size that forgets: figures for people, no decision rests on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/block_key.h"
#include "core/bytes.h"
#include "storage/miss_reason.h"

namespace terrace::storage {

class MissNotes {
 public:
  MissNotes() : entries_(entry_count) {}

  void note(const BlockKey& key, MissReason reason) {
    entry(key) = tag_of(key) | (static_cast<std::uint64_t>(reason) + 1);
  }
  // What was noted last, or `otherwise`; it is forgotten with that.
  MissReason take(const BlockKey& key, MissReason otherwise) {
    std::uint64_t& found = entry(key);
    if ((found & ~reason_mask) != tag_of(key) || (found & reason_mask) == 0) return otherwise;
    const auto reason = static_cast<MissReason>((found & reason_mask) - 1);
    found = 0;
    return reason;
  }

 private:
  static constexpr std::size_t entry_count = std::size_t{1} << 15;
  static constexpr std::uint64_t reason_mask = 0xff;

  std::uint64_t& entry(const BlockKey& key) {
    return entries_[load_le<std::uint64_t>(key.bytes.data()) % entry_count];
  }
  static std::uint64_t tag_of(const BlockKey& key) {
    return load_le<std::uint64_t>(key.bytes.data() + 8) & ~reason_mask;
  }

  std::vector<std::uint64_t> entries_;  // of each the tag and, in its last byte, 1 + the reason
};

}  // namespace terrace::storage
