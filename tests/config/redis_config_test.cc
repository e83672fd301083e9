// The options of the tier that other hosts share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/daemon_configs.h"

namespace terrace::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RedisConfig, ThePasswordOfRedisMayLieInAFile) {
  const auto load_password = [](const std::string& contents) {
    const ConfigFile secret(contents);
    secret.allow(std::filesystem::perms::owner_read);
    const std::string file = "redis.password_file=\"" + secret.path().string() + "\"";
    return load_with({file.c_str()});
  };
  EXPECT_EQ(load_password("hush\n")->redis.password, "hush");
  EXPECT_EQ(load_password("no newline")->redis.password, "no newline");
  EXPECT_EQ(load_password("first\r\nsecond\n")->redis.password, "first");
  EXPECT_EQ(load_password(std::string(4096, 'x'))->redis.password.size(), 4096u);
  for (const std::string& none : {std::string(), std::string("\nx")}) {
    const auto config = load_password(none);
    ASSERT_FALSE(config);
    EXPECT_THAT(config.error().message(), HasSubstr("found no password in its first line"));
  }
  EXPECT_THAT(load_password(std::string(4097, 'x')).error().message(),
              AllOf(HasSubstr("redis.password_file"), HasSubstr("more than 4096 bytes"),
                    Not(HasSubstr("xxx"))));
  // Others must not be able to read it.
  const ConfigFile open("hush\n");
  open.allow(std::filesystem::perms::owner_read | std::filesystem::perms::others_read);
  const std::string of_all = "redis.password_file=\"" + open.path().string() + "\"";
  EXPECT_THAT(message_with({of_all.c_str()}), AllOf(HasSubstr("redis.password_file"),
                                                    HasSubstr("chmod o="), Not(HasSubstr("hush"))));
  const auto missing = load_with({"redis.password_file=\"/nowhere/password\""});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), StatusCode::io_error);
}

TEST(RedisConfig, TheUserOfRedisMayLieInAFileBesideThePassword) {
  const ConfigFile user("worker\n"), password("hush\n");
  password.allow(std::filesystem::perms::owner_read);
  const std::string user_file = "redis.user_file=\"" + user.path().string() + "\"",
                    password_file = "redis.password_file=\"" + password.path().string() + "\"";
  const auto config = load_with({user_file.c_str(), password_file.c_str()});
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->redis.user + " " + config->redis.password, "worker hush");
  EXPECT_THAT(message_with({"redis.user=\"other\"", user_file.c_str(), password_file.c_str()}),
              HasSubstr("redis.user_file"));
}

TEST(RedisConfig, SecretsAreNotSaid) {
  for (const std::string& message :
       {message_for("redis = {password = 31415926}"), message_with({"redis.password=31415926"}),
        message_with({"redis.password=\"31415926\"", "redis.password_file=\"/nowhere\""})}) {
    EXPECT_THAT(message, HasSubstr("redis.password"));
    EXPECT_THAT(message, Not(HasSubstr("31415926")));
  }
}

TEST(RedisConfig, WhatARedisTierCannotBeIsSaidBeforeItIsBuilt) {
  for (const char* good : {"redis.example", "redis.example:6379", "10.0.0.1:1", "[::1]:65535"})
    EXPECT_TRUE(load_with({("redis.endpoints='" + std::string(good) + "'").c_str()})) << good;
  for (const char* bad : {"redis.example:", "redis.example:0", "redis.example:65536", "a:b:6379",
                          "redis://:hunter2@redis.example", "[::1"}) {
    const std::string message =
        message_with({("redis.endpoints='" + std::string(bad) + "'").c_str()});
    EXPECT_THAT(message, HasSubstr("expected such as \"redis.example:6379\"")) << bad;
    EXPECT_THAT(message, Not(HasSubstr("hunter2")));
  }
  EXPECT_THAT(message_with({"redis.endpoints=['a:1', 'b:1']"}), HasSubstr("expected one"));
  EXPECT_TRUE(load_with({"redis.endpoints=['a:1', 'b:1']", "redis.mode=cluster"}));
  EXPECT_THAT(message_with({"redis.endpoints=a:1", "redis.prefix='{x}'"}), HasSubstr("brace"));
  EXPECT_THAT(message_with({"redis.endpoints=a:1", "redis.user=me"}),
              HasSubstr("a password beside"));
  EXPECT_THAT(message_with({"redis.endpoints=a:1", "redis.tls.key_file=k"}),
              HasSubstr("both or none"));
  EXPECT_THAT(message_with({"redis.ttl_s=31622401"}), HasSubstr("from 0 to 31622400"));
  // Nobody minds while it is off.
  EXPECT_TRUE(load_with({"redis.user=me"}));
}

}  // namespace
}  // namespace terrace::config
