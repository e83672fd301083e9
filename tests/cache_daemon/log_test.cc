// A line of the log is a line, and JSON where that is asked for.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cache_daemon/protocol_fixture.h"

namespace terrace::daemon {
namespace {

class LogTest : public ProtocolFixture {};

TEST_F(LogTest, EveryLineIsOneObjectOfJson) {
  start_daemon({"log.format=json", "log.level=debug"});
  open_session(*connect());
  ASSERT_EQ(daemon_->stop(), 0);
  std::istringstream lines(daemon_->log());
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    for (const char* key : {"time", "level", "message"})
      EXPECT_TRUE(json.at(key).is_string()) << line;
  }
  EXPECT_GT(count, 2u);
}

}  // namespace
}  // namespace terrace::daemon
