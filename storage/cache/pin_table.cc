#include "storage/cache/pin_table.h"

#include "core/bytes.h"

namespace terrace::storage {

namespace {

// floor, expiry, slot bytes, space; then the chain.
constexpr std::size_t fixed_bytes = 1 + 8 + 8 + sizeof(BlockKey);

}  // namespace

std::string encode_pin(const Pin& pin) {
  std::string text(fixed_bytes + pin.chain.size() * sizeof(BlockKey), '\0');
  text[0] = static_cast<char>(pin.floor);
  store_le(text.data() + 1, pin.expires_unix_ms);
  store_le(text.data() + 9, pin.slot_bytes);
  store_le(text.data() + 17, pin.space);
  for (std::size_t i = 0; i < pin.chain.size(); ++i)
    store_le(text.data() + fixed_bytes + i * sizeof(BlockKey), pin.chain[i]);
  return text;
}

std::optional<Pin> decode_pin(std::string_view text) {
  if (text.size() <= fixed_bytes || (text.size() - fixed_bytes) % sizeof(BlockKey) != 0)
    return std::nullopt;
  Pin pin;
  pin.floor = static_cast<PinFloor>(text[0]);
  if (pin.floor < PinFloor::anywhere || pin.floor > PinFloor::device) return std::nullopt;
  pin.expires_unix_ms = load_le<std::int64_t>(text.data() + 1);
  pin.slot_bytes = load_le<std::uint64_t>(text.data() + 9);
  pin.space = load_le<BlockKey>(text.data() + 17);
  pin.chain.resize((text.size() - fixed_bytes) / sizeof(BlockKey));
  for (std::size_t i = 0; i < pin.chain.size(); ++i)
    pin.chain[i] = load_le<BlockKey>(text.data() + fixed_bytes + i * sizeof(BlockKey));
  return pin;
}

const Pin* PinTable::find(const BlockKey& key) const {
  const auto found = pins_.find(key);
  return found == pins_.end() ? nullptr : &found->second;
}

void PinTable::add(Pin pin) {
  count(pin, 1);
  const BlockKey key = pin.chain.back();
  pins_.emplace(key, std::move(pin));
}

Pin PinTable::remove(const BlockKey& key) {
  auto node = pins_.extract(key);
  count(node.mapped(), -1);
  return std::move(node.mapped());
}

PinFloor PinTable::floor(const BlockKey& key) const {
  const auto found = covered_.find(key);
  return found == covered_.end() ? PinFloor::none : nearest(found->second);
}

std::uint64_t PinTable::bytes(PinFloor floor) const {
  std::uint64_t sum = 0;
  for (auto at = static_cast<std::size_t>(floor); at < floors; ++at) sum += bytes_[at];
  return sum;
}

PinFloor PinTable::nearest(const Counts& counts) {
  for (std::size_t at = floors; at-- > 1;)
    if (counts[at] > 0) return static_cast<PinFloor>(at);
  return PinFloor::none;
}

void PinTable::count(const Pin& pin, int change) {
  for (const BlockKey& key : pin.chain) {
    Counts& counts = covered_[key];
    const PinFloor before = nearest(counts);
    counts[static_cast<std::size_t>(pin.floor)] += static_cast<std::uint32_t>(change);
    const PinFloor after = nearest(counts);
    if (before != PinFloor::none) bytes_[static_cast<std::size_t>(before)] -= pin.slot_bytes;
    if (after != PinFloor::none)
      bytes_[static_cast<std::size_t>(after)] += pin.slot_bytes;
    else
      covered_.erase(key);
  }
}

}  // namespace terrace::storage
