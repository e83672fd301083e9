// What operators pinned: which prefixes, and so which blocks stay where. Only keys: a pin outlives
// the loss of its blocks and holds for them again when they are sealed anew.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/block_key.h"
#include "storage/catalog/block.h"

namespace terrace::storage {

struct Pin {
  BlockKey space;
  PinFloor floor = PinFloor::anywhere;
  std::int64_t expires_unix_ms = 0;  // 0: never
  std::uint64_t slot_bytes = 0;      // of each of its blocks
  std::vector<BlockKey> chain;       // from the head of the prefix to the pinned key
};

// For a DiskNote. decode() gives nothing for what encode() did not make.
std::string encode_pin(const Pin& pin);
std::optional<Pin> decode_pin(std::string_view text);

class PinTable {
 public:
  bool empty() const { return pins_.empty(); }
  std::size_t size() const { return pins_.size(); }
  const Pin* find(const BlockKey& key) const;
  // By the last key of their chains.
  const std::map<BlockKey, Pin>& pins() const { return pins_; }

  // The chain is not empty, and its last key is not pinned.
  void add(Pin pin);
  // The pin must be there.
  Pin remove(const BlockKey& key);

  // How the block with this key is held: by the nearest tier of all pins that cover it.
  PinFloor floor(const BlockKey& key) const;
  // Of all blocks that are held in this tier or anywhere nearer; each counts once.
  std::uint64_t bytes(PinFloor floor) const;

 private:
  static constexpr std::size_t floors = 4;
  using Counts = std::array<std::uint32_t, floors>;  // pins, by their floor
  static PinFloor nearest(const Counts& counts);
  void count(const Pin& pin, int change);

  std::map<BlockKey, Pin> pins_;
  std::unordered_map<BlockKey, Counts> covered_;
  std::array<std::uint64_t, floors> bytes_{};  // of blocks, by their floor
};

}  // namespace terrace::storage
