#include "storage/redis/slot_hash.h"

#include <array>

namespace terrace::storage::redis {

namespace {

constexpr std::uint16_t polynomial = 0x1021;

constexpr std::array<std::uint16_t, 256> make_table() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < table.size(); ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 0x8000) ? (crc << 1) ^ polynomial : crc << 1;
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}
constexpr auto table = make_table();

}  // namespace

std::uint16_t slot_of(std::string_view key) {
  if (const std::size_t open = key.find('{'); open != std::string_view::npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1)
      key = key.substr(open + 1, close - open - 1);
  }
  std::uint16_t crc = 0;
  for (const char c : key)
    crc = static_cast<std::uint16_t>(crc << 8) ^
          table[static_cast<std::uint8_t>(crc >> 8) ^ static_cast<std::uint8_t>(c)];
  return crc % slot_count;
}

}  // namespace terrace::storage::redis
