#include "storage/codec/payload_codec.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace terrace::storage {
namespace {

using Bytes = std::vector<std::byte>;

Bytes noise(std::size_t size) {
  std::mt19937_64 random(size);
  Bytes bytes(size);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Bytes compressible(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i / 64);
  return bytes;
}

TEST(PayloadCodec, GivesBackWhatItWasGiven) {
  for (const Codec id : {Codec::raw, Codec::zstd}) {
    const auto codec = make_payload_codec(id, 1);
    EXPECT_EQ(codec->id(), id);
    for (const std::size_t size : {1u, 63u, 4096u, 100'000u}) {
      const Bytes payload = compressible(size);
      Bytes stored(size + 1024), back(size);
      const auto bytes = codec->encode(payload, stored);
      ASSERT_TRUE(bytes) << bytes.error().to_string();
      ASSERT_TRUE(codec->decode(std::span(stored).first(*bytes), back).ok());
      EXPECT_EQ(back, payload);
    }
  }
}

TEST(PayloadCodec, ZstdShrinksWhatShrinksAndSaysWhenItDoesNotFit) {
  const auto codec = make_payload_codec(Codec::zstd, 1);
  Bytes out(65536 - 4096);
  const auto small = codec->encode(compressible(65536), out);
  ASSERT_TRUE(small);
  EXPECT_LT(*small, 8192u);
  const auto large = codec->encode(noise(65536), out);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code(), StatusCode::no_space);
}

TEST(PayloadCodec, WhatDoesNotDecodeToTheWholePayloadIsCorruption) {
  const Bytes payload = compressible(20'000);
  for (const Codec id : {Codec::raw, Codec::zstd}) {
    const auto codec = make_payload_codec(id, 3);
    Bytes stored(30'000);
    const std::size_t bytes = codec->encode(payload, stored).value();
    Bytes shorter(19'999), longer(20'001), exact(20'000);
    EXPECT_EQ(codec->decode(std::span(stored).first(bytes), shorter).code(),
              StatusCode::corruption);
    EXPECT_EQ(codec->decode(std::span(stored).first(bytes), longer).code(), StatusCode::corruption);
    EXPECT_EQ(codec->decode(std::span(stored).first(bytes - 1), exact).code(),
              StatusCode::corruption);
  }
  Bytes out(100);
  EXPECT_EQ(make_payload_codec(Codec::zstd, 1)->decode(noise(500), out).code(),
            StatusCode::corruption);
}

}  // namespace
}  // namespace terrace::storage
