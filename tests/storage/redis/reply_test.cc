#include "storage/redis/reply.h"

#include <gtest/gtest.h>

#include <array>

#include "storage/redis/cluster_map.h"
#include "storage/redis/resp.h"

namespace terrace::storage::redis {
namespace {

TEST(Reply, LinesOfEachKind) {
  EXPECT_EQ(parse_line_reply("+OK")->text, "OK");
  EXPECT_EQ(parse_line_reply("-ERR no")->kind, Reply::Kind::error);
  EXPECT_EQ(parse_line_reply(":-17")->integer, -17);
  EXPECT_EQ(parse_line_reply("$-1")->kind, Reply::Kind::nil);
  for (const char* line : {"", "OK", ":", ":1x", ":99999999999999999999", "$5", "*2", "$-2"})
    EXPECT_FALSE(parse_line_reply(line)) << line;
}

TEST(Reply, ErrorsByTheirFirstWord) {
  EXPECT_EQ(classify_error("MOVED 1 h:2"), ErrorKind::moved);
  EXPECT_EQ(classify_error("LOADING Redis is loading the dataset in memory"), ErrorKind::not_ready);
  EXPECT_EQ(classify_error("OOM command not allowed"), ErrorKind::refuses_writes);
  EXPECT_EQ(classify_error("ERR unknown command 'UNLINK'"), ErrorKind::unknown_command);
  EXPECT_EQ(classify_error("OOMPH"), ErrorKind::other);
  EXPECT_EQ(classify_error(""), ErrorKind::other);
}

TEST(Reply, Redirections) {
  const auto moved = parse_redirection("MOVED 3999 127.0.0.1:6381");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->slot, 3999);
  EXPECT_EQ(moved->endpoint, (RedisEndpoint{"127.0.0.1", 6381}));
  EXPECT_EQ(parse_redirection("ASK 1 ::1:7000")->endpoint.host, "::1");
  EXPECT_EQ(parse_redirection("MOVED 1 :7000")->endpoint.host, "");
  for (const char* text : {"MOVED", "MOVED 1", "MOVED 1 host", "MOVED 16384 h:1", "MOVED x h:1",
                           "MOVED 1 h:0", "MOVED 1 h:70000", "MOVED -1 h:1"})
    EXPECT_FALSE(parse_redirection(text)) << text;
}

TEST(Reply, WhatIsShownIsPrintable) { EXPECT_EQ(printable("a\x01\nb\xff"), "a??b?"); }

std::string bulk(const std::string& text) {
  return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

const std::string two_ranges = "*2\r\n*3\r\n:0\r\n:100\r\n*2\r\n" + bulk("10.0.0.1") +
                               ":7000\r\n*4\r\n:101\r\n:16383\r\n*2\r\n$-1\r\n:7001\r\n*2\r\n" +
                               bulk("10.0.0.3") + ":7002\r\n";

TEST(ReplyReader, ReadsAcrossAnyCutAndLeavesWhatComesBehind) {
  for (std::size_t cut = 0; cut <= two_ranges.size(); ++cut) {
    ReplyReader reader;
    const std::string text = two_ranges + ":5\r\n";
    auto first = reader.read(std::string_view(text).substr(0, cut));
    ASSERT_TRUE(first);
    if (!first->reply) {
      EXPECT_EQ(first->consumed, cut);
      first = reader.read(std::string_view(text).substr(cut));
      ASSERT_TRUE(first && first->reply);
      EXPECT_EQ(first->consumed + cut, two_ranges.size());
    }
    EXPECT_EQ(first->reply->elements.size(), 2u);
  }
}

TEST(ReplyReader, WhatIsNoReplyIsAnError) {
  EXPECT_FALSE(ReplyReader().read("HTTP/1.1 400 Bad Request\r\n"));
}

TEST(ClusterMap, IsReadFromClusterSlots) {
  ReplyReader reader;
  const auto read = reader.read(two_ranges);
  ASSERT_TRUE(read && read->reply);
  const auto map = ClusterMap::parse(*read->reply, {"10.0.0.9", 1});
  ASSERT_TRUE(map);
  EXPECT_EQ(*map->master_of(0), (RedisEndpoint{"10.0.0.1", 7000}));
  EXPECT_EQ(*map->master_of(100), (RedisEndpoint{"10.0.0.1", 7000}));
  EXPECT_EQ(*map->master_of(101), (RedisEndpoint{"10.0.0.9", 7001})) << "who answered";
  EXPECT_EQ(map->masters().size(), 2u);
  EXPECT_EQ(map->nodes().size(), 3u);
}

TEST(ClusterMap, SlotsMayBeNobodysAndMayMove) {
  ClusterMap map;
  EXPECT_EQ(map.master_of(5), nullptr);
  map.move(5, {"h", 1});
  EXPECT_EQ(*map.master_of(5), (RedisEndpoint{"h", 1}));
  EXPECT_EQ(map.master_of(6), nullptr);
}

TEST(ClusterMap, WhatIsNoMapIsRefused) {
  for (const std::string text :
       {"*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\nh\r\n:0\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n"}) {
    ReplyReader reader;
    const auto read = reader.read(text);
    ASSERT_TRUE(read && read->reply) << text;
    EXPECT_FALSE(ClusterMap::parse(*read->reply, {"h", 1})) << text;
  }
}

TEST(Commands, ArgumentsMayHoldAnyBytes) {
  std::string text;
  append_command(text, std::array<std::string_view, 2>{"GET", std::string_view("a\r\n\0b", 5)});
  EXPECT_EQ(text, std::string("*2\r\n$3\r\nGET\r\n$5\r\na\r\n\0b\r\n", 24));
}

TEST(Commands, ASetFramesAValueThatItDoesNotSee) {
  std::string text, suffix;
  append_set(text, suffix, "k", 1000, 5000);
  EXPECT_EQ(text, "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\n");
  EXPECT_EQ(suffix, "\r\n$2\r\nPX\r\n$4\r\n5000\r\n");
}

}  // namespace
}  // namespace terrace::storage::redis
