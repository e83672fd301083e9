#include "client/cli/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

namespace terrace::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* stats_text = R"({
  "version": "0.1.0", "pid": 77, "uptime_s": 3725.5, "sessions": 1, "leases": 2,
  "tiers": {
    "device": {"capacity_bytes": 1073741824, "used_bytes": 34603008, "blocks": 47, "hits": 46,
               "misses": 1, "evictions": 0, "failures": 0, "corruptions": 0},
    "host": {"capacity_bytes": 0, "used_bytes": 0, "blocks": 0, "hits": 0, "misses": 0}
  }
})";

TEST(Stats, TableShowsTiersAndCounters) {
  std::ostringstream out;
  ASSERT_TRUE(print_stats(stats_text, out).ok());
  EXPECT_THAT(out.str(), StartsWith("terraced 0.1.0, process 77, up 1 h 2 min\n"));
  EXPECT_THAT(out.str(),
              HasSubstr("device      33 MiB     1 GiB          47          46           1"));
  EXPECT_THAT(out.str(), HasSubstr("host    off\n"));
  EXPECT_THAT(out.str(), HasSubstr("1 session, 2 leases\n"));
}

TEST(Stats, TableSaysWhyRedisWasOff) {
  const auto shown = [](const char* breaker, const char* why) {
    nlohmann::json stats = {
        {"tiers", {{"redis", {{"capacity_bytes", 0}, {"blocks", 3}, {"hits", 2}}}}},
        {"redis",
         {{"breaker", breaker},
          {"connections", 4},
          {"last_failure", why},
          {"failed_unix_ms", 1'700'000'000'123}}}};
    std::ostringstream out;
    EXPECT_TRUE(print_stats(stats.dump(), out).ok());
    return out.str();
  };
  EXPECT_THAT(shown("closed", ""),
              HasSubstr("redis            -         -           3           2"));
  EXPECT_THAT(shown("closed", ""), HasSubstr("redis: on, 4 connections"));
  EXPECT_THAT(shown("closed", ""), ::testing::Not(HasSubstr("off")));
  EXPECT_THAT(shown("open", "no\x1b[1m route"),
              HasSubstr("redis: off since 2023-11-14 22:13:20 UTC: no?[1m route\n"));
  EXPECT_THAT(shown("closed", "gone"),
              HasSubstr("redis: was off at 2023-11-14 22:13:20 UTC: gone\n"));
}

TEST(Stats, JsonIsOneObjectInOneLine) {
  std::ostringstream out;
  ASSERT_TRUE(print_stats_json(stats_text, out).ok());
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(nlohmann::json::parse(text), nlohmann::json::parse(stats_text));
}

TEST(Stats, WhatIsNoObjectIsAnError) {
  for (const char* bad : {"", "[]", "{\"tiers\":", "7"}) {
    std::ostringstream out;
    EXPECT_EQ(print_stats(bad, out).code(), StatusCode::internal) << bad;
    EXPECT_EQ(print_stats_json(bad, out).code(), StatusCode::internal) << bad;
    EXPECT_EQ(out.str(), "");
  }
}

TEST(Stats, WhatIsMissingOrOddIsLeftOut) {
  for (const char* odd : {"{}", R"({"tiers": 5})", R"({"tiers": {"device": 5}})",
                          R"({"tiers": {"device": {"capacity_bytes": "much"}}, "pid": "x"})"}) {
    std::ostringstream out;
    EXPECT_TRUE(print_stats(odd, out).ok()) << odd;
  }
}

}  // namespace
}  // namespace terrace::cli
