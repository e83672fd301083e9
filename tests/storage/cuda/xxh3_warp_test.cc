// The arithmetic of the checksum's kernel against the CPU's own XXH3.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/checksum.h"
#include "storage/device/cuda/device_checksum.h"
#include "tests/storage/cuda/cpu_warp.h"

namespace terrace::storage {
namespace {

TEST(Xxh3Warp, AgreesWithTheCpuForEveryLengthThatTheKernelHashes) {
  std::mt19937_64 random(1);
  std::vector<std::uint8_t> bytes(hash_piece_bytes);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  std::size_t lengths = 0;
  for (std::size_t length = 0; length <= bytes.size(); length += 8) {
    if (!DeviceChecksum::can_hash(0, length)) continue;
    ++lengths;
    bool good = true;
    CpuWarp warp;
    warp.aligned_and_inside = &good;
    warp.piece_bytes = length;
    const WarpWord hash = warp_hash::hash_piece(warp, bytes.data(), length);
    ASSERT_TRUE(good) << "a load of " << length << " bytes";
    const std::uint64_t expected = xxh3(std::as_bytes(std::span(bytes).first(length)));
    for (const std::uint64_t of_thread : hash.of) ASSERT_EQ(of_thread, expected) << length;
  }
  EXPECT_EQ(lengths, (16384 - 248) / 8 + 1u);
}

TEST(Xxh3Warp, WhatTheKernelCannotHashIsLeftToTheCpu) {
  EXPECT_TRUE(DeviceChecksum::can_hash(4096, 720 << 10));
  EXPECT_TRUE(DeviceChecksum::can_hash(4096, 4096));
  EXPECT_FALSE(DeviceChecksum::can_hash(4096, 16384 + 240));  // a short last piece
  EXPECT_FALSE(DeviceChecksum::can_hash(4096, 16384 + 244));  // no multiple of 8
  EXPECT_FALSE(DeviceChecksum::can_hash(4100, 4096));
  EXPECT_FALSE(DeviceChecksum::can_hash(4096, 0));
}

}  // namespace
}  // namespace terrace::storage
