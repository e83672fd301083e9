// What `terrace pins` prints, and the keys that people type.
#include "client/cli/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace terrace::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

client::PinListing a_pin() {
  client::PinListing pin;
  pin.key.bytes.fill(0xab);
  pin.space.bytes.fill(0xcd);
  pin.blocks = 3;
  pin.bytes = 3 << 20;
  pin.whole = true;
  return pin;
}

std::string table(const client::PinListing& pin, std::int64_t now_unix_ms = 0) {
  std::ostringstream out;
  print_pins({pin}, now_unix_ms, out);
  return out.str();
}

TEST(Pins, AKeyIsSixtyFourDigits) {
  const std::string hex(64, 'a');
  ASSERT_TRUE(parse_key(hex));
  EXPECT_EQ(parse_key(hex)->hex(), hex);
  for (const std::string& wrong : {std::string(), std::string(63, 'a'), std::string(64, 'x')}) {
    const auto key = parse_key(wrong);
    ASSERT_FALSE(key) << wrong;
    EXPECT_EQ(key.error().code(), StatusCode::invalid_argument);
    EXPECT_THAT(key.error().message(), HasSubstr("is no key: 64 hexadecimal digits"));
  }
}

TEST(Pins, TheTableSaysWhatIsHeldWhereAndForHowLong) {
  client::PinListing pin = a_pin();
  EXPECT_THAT(table(pin), AllOf(HasSubstr(pin.key.hex()), HasSubstr("any"), HasSubstr("3 MiB"),
                                HasSubstr("never"), Not(HasSubstr("not whole"))));
  pin.tier = Tier::host;
  pin.whole = false;
  pin.expires_unix_ms = 90 * 60'000;
  EXPECT_THAT(table(pin),
              AllOf(HasSubstr("host"), HasSubstr("1 h 30 min"), HasSubstr("not whole")));
  EXPECT_THAT(table(pin, 30 * 60'000 + 1), HasSubstr("1 h 0 min"));
  pin.expires_unix_ms = std::int64_t{75} * 3600 * 1000;
  EXPECT_THAT(table(pin), HasSubstr("3 d 3 h"));
}

TEST(Pins, WithoutAnyItSaysSo) {
  std::ostringstream out;
  print_pins({}, 0, out);
  EXPECT_EQ(out.str(), "nothing is pinned\n");
}

TEST(Pins, JsonHasEverything) {
  std::ostringstream out;
  print_pins_json({a_pin()}, out);
  const auto json = nlohmann::json::parse(out.str());
  ASSERT_EQ(json.size(), 1u);
  EXPECT_EQ(json[0]["key"], a_pin().key.hex());
  EXPECT_EQ(json[0]["space"], a_pin().space.hex());
  EXPECT_EQ(json[0]["tier"], "any");
  EXPECT_EQ(json[0]["expires_unix_ms"], 0);
  EXPECT_EQ(json[0]["blocks"], 3);
  EXPECT_EQ(json[0]["bytes"], 3 << 20);
  EXPECT_EQ(json[0]["whole"], true);
}

}  // namespace
}  // namespace terrace::cli
