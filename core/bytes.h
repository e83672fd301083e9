// Little-endian integers in byte strings, hexadecimal, and sizes for people.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/status.h"

namespace terrace {

static_assert(std::endian::native == std::endian::little, "Terrace's formats are read in place");

constexpr std::size_t kib = 1024, mib = 1024 * kib, gib = 1024 * mib;

// Reads a T from possibly unaligned memory of at least sizeof(T) bytes.
template <typename T>
T load_le(const void* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Writes a T to possibly unaligned memory of at least sizeof(T) bytes.
template <typename T>
void store_le(void* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof value);
}

// `value` rounded up to a multiple of `unit` (not 0). The caller sees to it that the sum does not
// overflow.
constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string to_hex(std::span<const std::uint8_t> bytes);

// Fills `out` from exactly 2 * out.size() hexadecimal digits, or leaves it undefined and returns
// false.
bool from_hex(std::string_view hex, std::span<std::uint8_t> out);

// "720 KiB", "1.5 GiB": at most three digits, binary units.
std::string format_bytes(std::uint64_t bytes);

// "8GiB", "512 MiB", "64k", "1048576" -> bytes. Units are binary; k, m, g, t with or without iB.
Result<std::uint64_t> parse_bytes(std::string_view text);

}  // namespace terrace
