#include "core/record.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "core/bytes.h"
#include "core/checksum.h"
#include "core/space.h"

namespace terrace {
namespace {

using Page = std::array<std::byte, record_header_bytes>;

RecordHeader example(std::size_t tokens = 32) {
  RecordHeader header;
  header.space.bytes[0] = 7;
  header.parent = header.space;
  for (std::size_t i = 0; i < tokens; ++i) header.tokens.push_back(static_cast<Token>(i * 3));
  header.key = derive_block_key(header.parent, header.tokens);
  header.codec = Codec::zstd;
  header.payload_bytes = 737280;
  header.stored_bytes = 12345;
  header.payload_checksum = 0x1122334455667788;
  header.stored_checksum = 0x99aabbccddeeff00;
  header.created_unix_ms = 1700000000123;
  header.written_unix_ms = 1700000000456;
  return header;
}

Page encoded(const RecordHeader& header) {
  Page page;
  EXPECT_TRUE(encode_record_header(header, page).ok());
  return page;
}

// Changes the page and makes its checksum right again: what is left to catch the change are the
// other checks.
Page forged(Page page, const std::function<void(std::byte*)>& change) {
  change(page.data());
  store_le<std::uint64_t>(page.data() + 4088, xxh3(std::span(page).first(4088)));
  return page;
}

StatusCode decode_code(const Page& page) {
  const auto header = decode_record_header(page);
  return header ? StatusCode::ok : header.error().code();
}

TEST(RecordHeader, ComesBackAsItWas) {
  for (const std::size_t tokens :
       {std::size_t{1}, std::size_t{32}, std::size_t{max_block_tokens}}) {
    const RecordHeader header = example(tokens);
    const auto decoded = decode_record_header(encoded(header));
    ASSERT_TRUE(decoded) << decoded.error().to_string();
    EXPECT_EQ(*decoded, header);
  }
}

// The places of the fields are a promise to every store already written.
TEST(RecordHeader, LiesAsTheFormatSays) {
  const RecordHeader header = example();
  const Page page = encoded(header);
  EXPECT_EQ(std::memcmp(page.data(), "TERRBLK\n", 8), 0);
  EXPECT_EQ(load_le<std::uint32_t>(&page[8]), 2u);
  EXPECT_EQ(load_le<std::uint32_t>(&page[12]), 1u);
  EXPECT_EQ(load_le<std::uint64_t>(&page[16]), header.payload_bytes);
  EXPECT_EQ(load_le<std::uint64_t>(&page[24]), header.stored_bytes);
  EXPECT_EQ(load_le<std::uint64_t>(&page[32]), header.payload_checksum);
  EXPECT_EQ(load_le<std::uint64_t>(&page[40]), header.stored_checksum);
  EXPECT_EQ(load_le<std::int64_t>(&page[48]), header.created_unix_ms);
  EXPECT_EQ(load_le<std::int64_t>(&page[160]), header.written_unix_ms);
  EXPECT_EQ(load_le<std::uint32_t>(&page[56]), 32u);
  EXPECT_EQ(load_le<std::uint8_t>(&page[64]), 7);
  EXPECT_EQ(load_le<BlockKey>(&page[96]), header.key);
  EXPECT_EQ(load_le<BlockKey>(&page[128]), header.parent);
  EXPECT_EQ(load_le<Token>(&page[256 + 4]), 3);
  EXPECT_EQ(load_le<std::uint64_t>(&page[4088]), xxh3(std::span(page).first(4088)));
}

TEST(RecordHeader, AnyFlippedBitIsCorruption) {
  const Page page = encoded(example());
  for (std::size_t at = 0; at < page.size(); ++at) {
    Page flipped = page;
    flipped[at] ^= std::byte{1} << (at % 8);
    ASSERT_EQ(decode_code(flipped), StatusCode::corruption) << "byte " << at;
  }
}

TEST(RecordHeader, AnotherVersionIsRefusedAndNamed) {
  const Page page =
      forged(encoded(example()), [](std::byte* at) { store_le<std::uint32_t>(at + 8, 1); });
  const auto header = decode_record_header(page);
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code(), StatusCode::failed_precondition);
  EXPECT_NE(header.error().message().find("version 1"), std::string::npos);
}

TEST(RecordHeader, LengthsThatCannotBeAreCorruption) {
  const Page page = encoded(example());
  const auto with64 = [&](std::size_t at, std::uint64_t value) {
    return forged(page, [=](std::byte* to) { store_le(to + at, value); });
  };
  EXPECT_EQ(decode_code(with64(16, 0)), StatusCode::corruption);
  EXPECT_EQ(decode_code(with64(16, max_block_bytes + 1)), StatusCode::corruption);
  EXPECT_EQ(decode_code(with64(24, 737280)), StatusCode::corruption);
  EXPECT_EQ(decode_code(with64(24, 0)), StatusCode::corruption);
  EXPECT_EQ(decode_code(with64(24, ~0ull)), StatusCode::corruption);
  const auto with32 = [&](std::size_t at, std::uint32_t value) {
    return forged(page, [=](std::byte* to) { store_le(to + at, value); });
  };
  EXPECT_EQ(decode_code(with32(12, 9)), StatusCode::corruption);
  EXPECT_EQ(decode_code(with32(56, 0)), StatusCode::corruption);
  EXPECT_EQ(decode_code(with32(56, max_block_tokens + 1)), StatusCode::corruption);
  EXPECT_EQ(decode_code(with32(56, ~0u)), StatusCode::corruption);
}

TEST(RecordHeader, AKeyThatIsNotItsTokensIsCorruption) {
  const Page page = encoded(example());
  for (const std::size_t at : {96, 128, 256})  // key, parent, tokens
    EXPECT_EQ(decode_code(forged(page, [=](std::byte* to) { to[at] ^= std::byte{1}; })),
              StatusCode::corruption);
}

TEST(RecordHeader, RefusesToEncodeWhatItWouldNotDecode) {
  Page page;
  EXPECT_EQ(encode_record_header(example(max_block_tokens + 1), page).code(),
            StatusCode::invalid_argument);
  RecordHeader raw = example();
  raw.codec = Codec::raw;
  EXPECT_EQ(encode_record_header(raw, page).code(), StatusCode::invalid_argument);
  EXPECT_EQ(encode_record_header(example(), std::span(page).first(100)).code(),
            StatusCode::invalid_argument);
}

TEST(RecordHeader, ShortInputIsCorruption) {
  const Page page = encoded(example());
  EXPECT_EQ(decode_record_header(std::span(page).first(4095)).error().code(),
            StatusCode::corruption);
}

}  // namespace
}  // namespace terrace
