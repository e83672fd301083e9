#include "storage/codec/byte_planes.h"

#include <bit>
#include <cstdint>
#include <cstring>

namespace terrace::storage {

namespace {

static_assert(std::endian::native == std::endian::little);

template <typename Number>
Number load(const std::byte* from, std::size_t i) {
  Number number;
  std::memcpy(&number, from + i * sizeof number, sizeof number);
  return number;
}

// The loops below are written so that compilers turn them into vector code.
void split2(const std::byte* __restrict from, std::size_t count, std::byte* __restrict low,
            std::byte* __restrict high) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto number = load<std::uint16_t>(from, i);
    const auto rotated = static_cast<std::uint16_t>(number << 1 | number >> 15);
    low[i] = static_cast<std::byte>(rotated);
    high[i] = static_cast<std::byte>(rotated >> 8);
  }
}

void join2(const std::byte* __restrict low, const std::byte* __restrict high, std::size_t count,
           std::byte* __restrict to) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto rotated = static_cast<std::uint16_t>(static_cast<std::uint16_t>(low[i]) |
                                                    static_cast<std::uint16_t>(high[i]) << 8);
    const auto number = static_cast<std::uint16_t>(rotated >> 1 | rotated << 15);
    std::memcpy(to + i * sizeof number, &number, sizeof number);
  }
}

void split4(const std::byte* __restrict from, std::size_t count, std::byte* __restrict first,
            std::byte* __restrict second, std::byte* __restrict third,
            std::byte* __restrict fourth) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t rotated = std::rotl(load<std::uint32_t>(from, i), 1);
    first[i] = static_cast<std::byte>(rotated);
    second[i] = static_cast<std::byte>(rotated >> 8);
    third[i] = static_cast<std::byte>(rotated >> 16);
    fourth[i] = static_cast<std::byte>(rotated >> 24);
  }
}

void join4(const std::byte* __restrict first, const std::byte* __restrict second,
           const std::byte* __restrict third, const std::byte* __restrict fourth, std::size_t count,
           std::byte* __restrict to) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t rotated =
        static_cast<std::uint32_t>(first[i]) | static_cast<std::uint32_t>(second[i]) << 8 |
        static_cast<std::uint32_t>(third[i]) << 16 | static_cast<std::uint32_t>(fourth[i]) << 24;
    const std::uint32_t number = std::rotr(rotated, 1);
    std::memcpy(to + i * sizeof number, &number, sizeof number);
  }
}

}  // namespace

void split_planes(std::span<const std::byte> numbers, std::size_t width,
                  std::span<std::byte> planes) {
  const std::size_t count = numbers.size() / width;
  std::byte* const to = planes.data();
  if (width == 2)
    split2(numbers.data(), count, to, to + count);
  else
    split4(numbers.data(), count, to, to + count, to + 2 * count, to + 3 * count);
}

void join_planes(std::span<const std::byte* const> planes, std::size_t count,
                 std::span<std::byte> numbers) {
  if (planes.size() == 2)
    join2(planes[0], planes[1], count, numbers.data());
  else
    join4(planes[0], planes[1], planes[2], planes[3], count, numbers.data());
}

}  // namespace terrace::storage
