#include "config/http_address.h"

#include <gtest/gtest.h>

namespace terrace::config {
namespace {

TEST(HttpAddress, IsAnAddressInDigitsAndAPort) {
  const auto v4 = parse_http_address("127.0.0.1:9470");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->host, "127.0.0.1");
  EXPECT_EQ(v4->port, 9470);
  EXPECT_TRUE(v4->loopback);
  const auto v6 = parse_http_address("[::1]:0");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->host, "::1");
  EXPECT_TRUE(v6->loopback);
  EXPECT_EQ(parse_http_address("localhost:80")->host, "127.0.0.1");
  EXPECT_TRUE(parse_http_address("127.1.2.3:80")->loopback);
  for (const char* remote : {"0.0.0.0:80", "10.0.0.1:80", "[::]:80", "[fe80::1]:80"})
    EXPECT_FALSE(parse_http_address(remote)->loopback) << remote;
  for (const char* wrong :
       {"", "9470", ":9470", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:80 ", "example.com:80", "::1:80", "[::1]", "[127.0.0.1]:80", "127.1:80"})
    EXPECT_FALSE(parse_http_address(wrong)) << wrong;
}

}  // namespace
}  // namespace terrace::config
