#include "core/bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace terrace {
namespace {

TEST(Hex, RoundTripsAndRefusesWhatIsNotHex) {
  const std::array<std::uint8_t, 3> bytes = {0x00, 0xab, 0xff};
  EXPECT_EQ(to_hex(bytes), "00abff");
  std::array<std::uint8_t, 3> back{};
  EXPECT_TRUE(from_hex("00abFF", back));
  EXPECT_EQ(back, bytes);
  EXPECT_FALSE(from_hex("00abf", back));
  EXPECT_FALSE(from_hex("00abfg", back));
  EXPECT_FALSE(from_hex("00ab-f", back));
}

TEST(ParseBytes, KnowsBinaryUnits) {
  EXPECT_EQ(parse_bytes("1048576").value(), mib);
  EXPECT_EQ(parse_bytes("8GiB").value(), 8 * gib);
  EXPECT_EQ(parse_bytes("512 MiB").value(), 512 * mib);
  EXPECT_EQ(parse_bytes("64k").value(), 64 * kib);
  EXPECT_EQ(parse_bytes("0").value(), 0u);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "GiB", "-1", "1.5GiB", "8 GiBs", "8x", "99999999999999999999", "18014398509481984k"})
    EXPECT_FALSE(parse_bytes(text).has_value()) << text;
}

TEST(FormatBytes, IsShort) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(737280), "720 KiB");
  EXPECT_EQ(format_bytes(3 * gib / 2), "1.50 GiB");
}

TEST(RoundUp, ReachesTheNextMultiple) {
  EXPECT_EQ(round_up(0, 4096), 0u);
  EXPECT_EQ(round_up(1, 4096), 4096u);
  EXPECT_EQ(round_up(4096, 4096), 4096u);
}

}  // namespace
}  // namespace terrace
