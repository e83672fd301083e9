// Numbers of 2 or 4 bytes as planes of bytes, and back. Each number is rotated left by one bit
// first, so that its sign lies with the mantissa and, of BF16 and F32, the last plane is all
// exponent.
#pragma once

#include <cstddef>
#include <span>

namespace terrace::storage {

// `planes` is as long as `numbers`: number i's byte k (of `width`, 2 or 4, little-endian) is at
// k * count + i. What does not fill a number at the end of `numbers` is not touched.
void split_planes(std::span<const std::byte> numbers, std::size_t width,
                  std::span<std::byte> planes);

// The other way; planes[k] is plane k, `count` bytes.
void join_planes(std::span<const std::byte* const> planes, std::size_t count,
                 std::span<std::byte> numbers);

}  // namespace terrace::storage
