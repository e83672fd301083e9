#include "storage/codec/payload_codec.h"

#include <gtest/gtest.h>

#include <cstring>
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
  for (const Codec id : {Codec::raw, Codec::zstd, Codec::planes}) {
    const auto codec = make_payload_codec(id, 1);
    EXPECT_EQ(codec->id(), id);
    for (const std::size_t size : {1u, 63u, 4096u, 100'000u}) {
      const Bytes payload = compressible(size);
      Bytes stored(size + 1024), back(size);
      const auto bytes = codec->encode(payload, 2, stored);
      ASSERT_TRUE(bytes) << bytes.error().to_string();
      ASSERT_TRUE(codec->decode(std::span(stored).first(*bytes), back).ok());
      EXPECT_EQ(back, payload);
    }
  }
}

TEST(PayloadCodec, ZstdShrinksWhatShrinksAndSaysWhenItDoesNotFit) {
  const auto codec = make_payload_codec(Codec::zstd, 1);
  Bytes out(65536 - 4096);
  const auto small = codec->encode(compressible(65536), 0, out);
  ASSERT_TRUE(small);
  EXPECT_LT(*small, 8192u);
  const auto large = codec->encode(noise(65536), 0, out);
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code(), StatusCode::no_space);
}

// As the values of one head: exponents that are alike, mantissas that are noise.
template <typename Number>
Bytes kv_like(std::size_t numbers) {
  std::mt19937 random(7);
  std::normal_distribution<float> values(0.0F, 1.0F);
  Bytes bytes(numbers * sizeof(Number));
  for (std::size_t i = 0; i < numbers; ++i) {
    const float value = values(random);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const auto number = static_cast<Number>(sizeof(Number) == 2 ? bits >> 16 : bits);
    std::memcpy(bytes.data() + i * sizeof number, &number, sizeof number);
  }
  return bytes;
}

TEST(PlaneCodec, ShrinksNumbersThatZstdDoesNot) {
  const auto planes = make_payload_codec(Codec::planes, 1),
             zstd = make_payload_codec(Codec::zstd, 1);
  for (const std::size_t width : {2u, 4u}) {
    const Bytes payload =
        width == 2 ? kv_like<std::uint16_t>(100'000) : kv_like<std::uint32_t>(50'000);
    Bytes out(payload.size()), back(payload.size());
    const auto whole = zstd->encode(payload, width, out);
    const std::size_t by_zstd = whole ? *whole : payload.size();
    const auto bytes = planes->encode(payload, width, out);
    ASSERT_TRUE(bytes);
    EXPECT_LT(*bytes, by_zstd * 95 / 100) << width;
    ASSERT_TRUE(planes->decode(std::span(out).first(*bytes), back).ok());
    EXPECT_EQ(back, payload);
  }
}

TEST(PlaneCodec, GivesBackEveryNumberAndWhatFillsNone) {
  const auto codec = make_payload_codec(Codec::planes, 1);
  Bytes all(2 * 65536);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto number = static_cast<std::uint16_t>(i);
    std::memcpy(all.data() + 2 * i, &number, sizeof number);
  }
  for (const std::size_t width : {0u, 1u, 2u, 4u, 3u}) {
    for (const std::size_t cut : {0u, 1u, 2u, 3u}) {
      const Bytes payload(all.begin(), all.end() - static_cast<std::ptrdiff_t>(cut));
      Bytes out(payload.size() + 100), back(payload.size());
      const auto bytes = codec->encode(payload, width, out);
      ASSERT_TRUE(bytes) << width << ' ' << cut;
      ASSERT_TRUE(codec->decode(std::span(out).first(*bytes), back).ok());
      EXPECT_EQ(back, payload);
    }
  }
}

TEST(PlaneCodec, NoByteOfItsOwnIsBelieved) {
  const auto codec = make_payload_codec(Codec::planes, 1);
  const Bytes payload = kv_like<std::uint16_t>(20'000);
  Bytes stored(payload.size()), back(payload.size());
  stored.resize(codec->encode(payload, 2, stored).value());
  for (std::size_t at = 0; at < 20; ++at) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      Bytes broken = stored;
      broken[at] ^= static_cast<std::byte>(flip);
      const Status decoded = codec->decode(broken, back);
      EXPECT_EQ(decoded.code(), StatusCode::corruption) << at << ' ' << flip;
    }
  }
  for (std::size_t length = 0; length < stored.size(); length += 997)
    EXPECT_EQ(codec->decode(std::span(stored).first(length), back).code(), StatusCode::corruption);
}

TEST(PayloadCodec, KnowsTheNumbersOfASpace) {
  EXPECT_EQ(element_bytes_of("bf16"), 2u);
  EXPECT_EQ(element_bytes_of("f32"), 4u);
  EXPECT_EQ(element_bytes_of("q8"), 0u);
}

TEST(PayloadCodec, WhatDoesNotDecodeToTheWholePayloadIsCorruption) {
  const Bytes payload = compressible(20'000);
  for (const Codec id : {Codec::raw, Codec::zstd, Codec::planes}) {
    const auto codec = make_payload_codec(id, 3);
    Bytes stored(30'000);
    const std::size_t bytes = codec->encode(payload, 2, stored).value();
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
