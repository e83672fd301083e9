// A RedisStore on a real server that is well.
#include "storage/redis/redis_store.h"

#include "storage/redis/engine.h"
#include "tests/storage/redis/remote_harness.h"

namespace terrace::storage {
namespace {

using test_support::RedisServer;
using test_support::wait_until;

constexpr std::size_t stored_block_bytes = 128 * kib;

TEST(RedisStore, ServesWhatWasWrittenAndNothingElse) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const auto blocks = chain(3, stored_block_bytes);
  EXPECT_EQ(harness.read(blocks[0]).status.code(), StatusCode::not_found);
  for (const TestBlock& block : blocks) {
    const RemoteCompletion written = harness.write(block);
    EXPECT_EQ(written.status.to_string(), "ok");
    EXPECT_EQ(written.stored_bytes, stored_block_bytes + record_header_bytes);
  }
  for (const TestBlock& block : blocks) EXPECT_EQ(harness.read(block).status.to_string(), "ok");

  const RemoteUsage usage = harness.store().usage();
  EXPECT_EQ(usage.written, 3u);
  EXPECT_EQ(usage.found, 3u);
  EXPECT_EQ(usage.absent, 1u);
  EXPECT_EQ(usage.in_flight_bytes, 0u);
  EXPECT_EQ(usage.last_failure, "");
}

TEST(RedisStore, AnyByteMayBeInAValueOfAnySize) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  // Below, at and above pieces of the checksum, parts of a transfer and buffers.
  for (const std::size_t bytes :
       {64ul, 4096ul, 16 * kib, 16 * kib + 64, 256 * kib, 256 * kib + 64, 3 * mib + 192}) {
    const TestBlock block = test_block(test_space(bytes), bytes, bytes);
    EXPECT_EQ(harness.write(block).status.to_string(), "ok") << bytes;
    EXPECT_EQ(harness.read(block).status.to_string(), "ok") << bytes;
  }
}

TEST(RedisStore, AValueIsTheRecordUnderANameWithoutBracesAndHasItsTtl) {
  RedisServer server;
  RedisOptions options = options_for(server.port());
  options.key_prefix = "other";
  options.ttl_ms = 3'600'000;
  RemoteHarness harness(options);
  const TestBlock block = test_block(test_space(stored_block_bytes), 7, stored_block_bytes);
  ASSERT_EQ(harness.write(block).status.to_string(), "ok");
  const std::string name = value_name(block, "other");
  const std::string value = server.command({"GET", name}).text;
  ASSERT_EQ(value.size(), record_header_bytes + stored_block_bytes);
  const auto header =
      decode_record_header(std::as_bytes(std::span(value)).first(record_header_bytes));
  ASSERT_TRUE(header) << header.error().to_string();
  EXPECT_EQ(header->key, block.key);
  EXPECT_EQ(header->tokens, block.tokens);
  EXPECT_TRUE(value.substr(record_header_bytes) == value_of(block).substr(record_header_bytes));
  const std::int64_t ttl_ms = server.command({"PTTL", name}).integer();
  EXPECT_GT(ttl_ms, 0);
  EXPECT_LE(ttl_ms, options.ttl_ms);

  options.ttl_ms = 0;
  RemoteHarness forever(options);
  ASSERT_EQ(forever.write(block).status.to_string(), "ok");
  EXPECT_EQ(server.command({"PTTL", name}).integer(), -1);
}

TEST(RedisStore, ALookupEndsAtTheFirstHole) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const auto blocks = chain(600, 64);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (i != 517) server.command({"SET", value_name(blocks[i]), value_of(blocks[i])});
  RemoteCompletion found = harness.lookup(blocks);
  EXPECT_EQ(found.status.to_string(), "ok");
  EXPECT_EQ(found.present, 517u);
  server.command({"DEL", value_name(blocks[0])});
  found = harness.lookup(blocks);
  EXPECT_EQ(found.status.to_string(), "ok");
  EXPECT_EQ(found.present, 0u);
}

TEST(RedisStore, WhatWasNotThereIsNotAskedForAgainUntilItIsWritten) {
  RedisServer server;
  RedisOptions options = options_for(server.port());
  options.negative_ttl_ms = 600'000;
  RemoteHarness harness(options);
  const auto blocks = chain(2, stored_block_bytes);
  ASSERT_EQ(harness.write(blocks[0]).status.to_string(), "ok");
  EXPECT_EQ(harness.lookup(blocks).present, 1u);
  const auto asked = [&] {
    const std::string stats = server.command({"INFO", "commandstats"}).text;
    return stats.substr(std::min(stats.find("cmdstat_exists:"), stats.size()), 24);
  };
  server.command({"CONFIG", "RESETSTAT"});
  std::vector<TestBlock> missing;
  missing.push_back(test_child(blocks[0], 2, stored_block_bytes));
  ASSERT_EQ(missing[0].key, blocks[1].key);
  EXPECT_EQ(harness.lookup(missing).present, 0u);
  EXPECT_EQ(asked(), "");
  ASSERT_EQ(harness.write(blocks[1]).status.to_string(), "ok");
  EXPECT_EQ(harness.lookup(missing).present, 1u);
  EXPECT_EQ(harness.lookup(blocks).present, 2u);
}

TEST(RedisStore, ErasesBehindTheWriteThatCameBefore) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const TestBlock block = test_block(test_space(stored_block_bytes), 3, stored_block_bytes);
  const Ticket ticket = harness.start_write(block);
  harness.erase(block);
  EXPECT_EQ(harness.wait(ticket).status.to_string(), "ok");
  EXPECT_TRUE(wait_until([&] { return server.command({"DBSIZE"}).text == "0"; }));
  EXPECT_EQ(harness.read(block).status.code(), StatusCode::not_found);
}

TEST(RedisStore, ErasesMoreKeysThanOneCommandTakes) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const auto blocks = chain(2500, 64);
  std::vector<BlockKey> keys;
  auto client = server.client();
  for (const TestBlock& block : blocks) {
    keys.push_back(block.key);
    client.command({"SET", value_name(block), "x"});
  }
  ASSERT_EQ(harness.lookup(blocks).present, blocks.size());
  harness.store().erase(blocks[0].space, keys);
  EXPECT_TRUE(wait_until([&] { return server.command({"DBSIZE"}).text == "0"; }));
}

TEST(RedisStore, ErasesOnAServerThatDoesNotKnowUnlink) {
  RedisServer server({"--rename-command", "UNLINK", ""});
  RemoteHarness harness(options_for(server.port()));
  const TestBlock block = test_block(test_space(stored_block_bytes), 3, stored_block_bytes);
  ASSERT_EQ(harness.write(block).status.to_string(), "ok");
  harness.erase(block);
  EXPECT_TRUE(wait_until([&] { return server.command({"DBSIZE"}).text == "0"; }));
}

// Also on one that does not know UNLINK.
TEST(RedisStore, ErasesASpaceWhoeverWroteItAndNothingElse) {
  for (const bool knows_unlink : {true, false}) {
    RedisServer server(knows_unlink ? std::vector<std::string>{}
                                    : std::vector<std::string>{"--rename-command", "UNLINK", ""});
    RedisOptions options = options_for(server.port());
    options.key_prefix = "t*r[r]a?ce";  // no pattern
    RemoteHarness one(options), other(options);
    const TestBlock written = test_block(test_space(64), 3, 64);
    const TestBlock of_another_space = test_block(test_space(128), 4, 128);
    ASSERT_EQ(one.write(written).status.to_string(), "ok");
    ASSERT_EQ(one.write(of_another_space).status.to_string(), "ok");
    auto client = server.client();
    const std::size_t many = 3 * redis::scanned_names;
    for (const TestBlock& block : chain(many, 64, 100))
      client.command({"SET", value_name(block, options.key_prefix), "x"});
    const std::string looks_like_it = value_name(written, "terraxce");
    client.command({"SET", looks_like_it, "x"});
    client.command({"SET", value_name(written, options.key_prefix) + "ab", "x"});
    EXPECT_EQ(other.erase_space(written.space).status.to_string(), "ok");
    EXPECT_EQ(server.command({"DBSIZE"}).text, "3") << "what was written, all of it, is gone";
    EXPECT_EQ(one.read(written).status.code(), StatusCode::not_found);
    EXPECT_EQ(one.read(of_another_space).status.to_string(), "ok");
    server.kill();
    EXPECT_EQ(other.erase_space(written.space).status.code(), StatusCode::unavailable);
  }
}

TEST(RedisStore, NothingIsStoredIfTheBytesAreNotWhatTheirChecksumSays) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const TestBlock good = test_block(test_space(mib), 4, mib);
  const TestBlock other = test_block(test_space(mib), 5, mib);
  const Ticket before = harness.start_write(good);
  const Ticket wrong = harness.next_ticket();
  harness.store().write({wrong, other.space, other.key, other.parent, other.tokens, other.payload(),
                         payload_checksum(good.payload())});
  EXPECT_EQ(harness.wait(wrong).status.code(), StatusCode::corruption);
  // Whoever shared the connection is not harmed.
  EXPECT_EQ(harness.wait(before).status.to_string(), "ok");
  EXPECT_EQ(harness.read(other).status.code(), StatusCode::not_found);
  EXPECT_EQ(harness.read(good).status.to_string(), "ok");
  EXPECT_TRUE(harness.store().available());
}

TEST(RedisStore, ManyRequestsAtOnceAreEachAnsweredOnce) {
  RedisServer server;
  RedisOptions options = options_for(server.port());
  options.max_in_flight_bytes = mib;
  RemoteHarness harness(options);
  const auto blocks = chain(200, stored_block_bytes);
  std::vector<Ticket> tickets;
  for (const TestBlock& block : blocks) tickets.push_back(harness.start_write(block));
  for (const Ticket ticket : tickets) EXPECT_EQ(harness.wait(ticket).status.to_string(), "ok");
  std::vector<AlignedBuffer> destinations(blocks.size());
  tickets.clear();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    tickets.push_back(harness.start_read(blocks[i], destinations[i]));
    if (i % 10 == 0) tickets.push_back(harness.start_lookup(blocks));
  }
  for (const Ticket ticket : tickets) EXPECT_EQ(harness.wait(ticket).status.to_string(), "ok");
  for (std::size_t i = 0; i < blocks.size(); ++i)
    EXPECT_EQ(std::memcmp(destinations[i].data(), blocks[i].payload().data(), stored_block_bytes),
              0);
}

TEST(RedisStore, AFullQueueRejects) {
  RedisServer server;
  RedisOptions options = options_for(server.port());
  options.max_queued_requests = 2;
  RemoteHarness harness(options);
  ASSERT_TRUE(harness.write(test_block(test_space(64), 1, 64)).status.ok());
  server.freeze();
  const auto blocks = chain(3, 64);
  std::vector<Ticket> tickets;
  for (const TestBlock& block : blocks) tickets.push_back(harness.start_write(block));
  const RemoteCompletion rejected = harness.wait(tickets[2]);
  EXPECT_EQ(rejected.status.code(), StatusCode::unavailable);
  server.thaw();
  EXPECT_EQ(harness.wait(tickets[0]).status.to_string(), "ok");
  EXPECT_EQ(harness.wait(tickets[1]).status.to_string(), "ok");
  EXPECT_EQ(harness.store().usage().rejected, 1u);
}

TEST(RedisStore, TwoStoresShareWhatOneWrote) {
  RedisServer server;
  RemoteHarness one(options_for(server.port())), other(options_for(server.port()));
  const auto blocks = chain(4, 720 * kib);
  for (const TestBlock& block : blocks) ASSERT_TRUE(one.write(block).status.ok());
  EXPECT_EQ(other.lookup(blocks).present, 4u);
  for (const TestBlock& block : blocks) EXPECT_EQ(other.read(block).status.to_string(), "ok");
}

TEST(RedisStore, TheDatabaseIsTheOneThatWasAskedFor) {
  RedisServer server;
  RedisOptions options = options_for(server.port());
  options.database = 5;
  RemoteHarness harness(options);
  const TestBlock block = test_block(test_space(64), 1, 64);
  ASSERT_TRUE(harness.write(block).status.ok());
  EXPECT_EQ(server.command({"DBSIZE"}).text, "0");
  auto client = server.client();
  client.command({"SELECT", "5"});
  EXPECT_EQ(client.command({"EXISTS", value_name(block)}).text, "1");
}

TEST(RedisStore, LogsInWithAPasswordAndWithAUser) {
  RedisServer server({"--requirepass", "open sesame"});
  auto admin = server.client();
  admin.command({"AUTH", "open sesame"});
  // What docs/redis.md says that a user needs.
  ASSERT_TRUE(
      admin
          .command({"ACL", "SETUSER", "worker", "on", ">secret", "~terrace:*", "+set", "+get",
                    "+exists", "+unlink", "+del", "+ping", "+select", "+cluster|slots", "+asking"})
          .ok());
  const TestBlock block = test_block(test_space(64), 1, 64);
  RedisOptions options = options_for(server.port());
  options.password = "open sesame";
  RemoteHarness by_password(options);
  EXPECT_EQ(by_password.write(block).status.to_string(), "ok");
  options.user = "worker";
  options.password = "secret";
  RemoteHarness by_user(options);
  EXPECT_EQ(by_user.read(block).status.to_string(), "ok");
  std::vector<TestBlock> blocks;
  blocks.push_back(test_block(test_space(64), 2, 64));
  EXPECT_EQ(by_user.write(blocks[0]).status.to_string(), "ok");
  EXPECT_EQ(by_user.lookup(blocks).present, 1u);
  by_user.erase(blocks[0]);
  EXPECT_TRUE(wait_until([&] { return by_user.lookup(blocks).present == 0; }));
  EXPECT_EQ(by_user.store().usage().last_failure, "");
}

TEST(RedisStore, AWrongPasswordIsSaidWithoutIt) {
  RedisServer server({"--requirepass", "right"});
  RedisOptions options = options_for(server.port());
  for (const char* password : {"", "wrong-and-secret"}) {
    options.password = password;
    RemoteHarness harness(options);
    ASSERT_TRUE(harness.wait_available(false));
    const RemoteUsage usage = harness.store().usage();
    EXPECT_NE(usage.last_failure.find(*password == '\0' ? "NOAUTH" : "WRONGPASS"),
              std::string::npos)
        << usage.last_failure;
    EXPECT_EQ(usage.last_failure.find("secret"), std::string::npos);
    EXPECT_GT(usage.failed_unix_ms, 0);
    const TestBlock block = test_block(test_space(64), 1, 64);
    EXPECT_EQ(harness.write(block).status.code(), StatusCode::unavailable);
  }
}

}  // namespace
}  // namespace terrace::storage
