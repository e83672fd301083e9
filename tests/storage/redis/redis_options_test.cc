#include "storage/redis/redis_options.h"

#include <gtest/gtest.h>

namespace terrace::storage {
namespace {

TEST(RedisOptions, EndpointsAreReadAndWritten) {
  EXPECT_EQ(*parse_redis_endpoint("redis.example:7000"), (RedisEndpoint{"redis.example", 7000}));
  EXPECT_EQ(*parse_redis_endpoint("redis.example"), (RedisEndpoint{"redis.example", 6379}));
  EXPECT_EQ(*parse_redis_endpoint("[::1]:7000"), (RedisEndpoint{"::1", 7000}));
  EXPECT_EQ(to_string(RedisEndpoint{"::1", 7000}), "[::1]:7000");
  EXPECT_EQ(to_string(RedisEndpoint{"h", 1}), "h:1");
  for (const char* text : {"", ":1", "h:", "h:0", "h:65536", "h:1x", "[::1", "[::1]1", "a b:1"})
    EXPECT_FALSE(parse_redis_endpoint(text)) << text;
  for (const char* text : {"redis://:secret@host", "secret@host", "user:secret@host:6379"}) {
    const auto parsed = parse_redis_endpoint(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().message().find("secret"), std::string::npos) << text;
  }
}

struct Mistake {
  const char* field;
  void (*make)(RedisOptions&);
};

TEST(RedisOptions, AMistakeIsNamed) {
  EXPECT_EQ(validate(RedisOptions()).to_string(), "ok");
  const Mistake mistakes[] = {
      {"endpoints", [](RedisOptions& o) { o.endpoints.clear(); }},
      {"standalone",
       [](RedisOptions& o) {
         o.endpoints.resize(2, {"h", 1});
       }},
      {"host", [](RedisOptions& o) { o.endpoints[0].host = ""; }},
      {"database", [](RedisOptions& o) { o.mode = RedisMode::cluster, o.database = 1; }},
      {"brace", [](RedisOptions& o) { o.key_prefix = "{a}"; }},
      {"key_prefix", [](RedisOptions& o) { o.key_prefix = ""; }},
      {"key_prefix", [](RedisOptions& o) { o.key_prefix = "a b"; }},
      {"password", [](RedisOptions& o) { o.user = "u"; }},
      {"certificate", [](RedisOptions& o) { o.tls.certificate_file = "c"; }},
      {"connect_timeout_ms", [](RedisOptions& o) { o.connect_timeout_ms = 0; }},
      {"request_timeout_ms", [](RedisOptions& o) { o.request_timeout_ms = -1; }},
      {"ttl_ms", [](RedisOptions& o) { o.ttl_ms = -1; }},
      {"connections_per_server", [](RedisOptions& o) { o.connections_per_server = 0; }},
      {"max_in_flight_bytes", [](RedisOptions& o) { o.max_in_flight_bytes = 0; }},
      {"max_queued_requests", [](RedisOptions& o) { o.max_queued_requests = 0; }},
      {"max_value_bytes", [](RedisOptions& o) { o.max_value_bytes = 1; }},
      {"breaker_failures", [](RedisOptions& o) { o.breaker_failures = 0; }},
      {"breaker_max_open_ms", [](RedisOptions& o) { o.breaker_max_open_ms = 1; }},
  };
  for (const Mistake& mistake : mistakes) {
    RedisOptions options;
    mistake.make(options);
    const Status status = validate(options);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << mistake.field;
    EXPECT_NE(status.message().find(mistake.field), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace terrace::storage
