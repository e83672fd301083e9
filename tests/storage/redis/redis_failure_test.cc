// A RedisStore whose server, or the way to it, is not well. In each case: never wrong bytes, no
// answer later than its budget, and the store comes back by itself.
#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "core/checksum.h"
#include "tests/storage/redis/remote_harness.h"
#include "tests/support/tcp_proxy.h"

namespace terrace::storage {
namespace {

using test_support::RedisServer;
using test_support::TcpProxy;
using test_support::wait_until;

constexpr std::size_t block_bytes = 128 * kib;

// What an answer may be while something is wrong: right, or none.
void expect_right_or_none(const RemoteCompletion& completion) {
  if (completion.status.ok()) return;
  EXPECT_EQ(completion.status.code(), StatusCode::unavailable) << completion.status.to_string();
}

TEST(RedisFailure, AServerThatIsAbsentAtTheStartIsFoundWhenItComes) {
  const std::uint16_t port = test_support::free_port();
  RemoteHarness harness(options_for(port));
  const TestBlock block = test_block(test_space(block_bytes), 1, block_bytes);
  EXPECT_EQ(harness.write(block).status.code(), StatusCode::unavailable);
  ASSERT_TRUE(harness.wait_available(false));
  EXPECT_EQ(harness.read(block).status.code(), StatusCode::unavailable);
  const RemoteUsage usage = harness.store().usage();
  EXPECT_NE(usage.last_failure.find("refused"), std::string::npos) << usage.last_failure;
  EXPECT_NE(usage.last_failure.find(std::to_string(port)), std::string::npos);
  EXPECT_NE(usage.breaker, Breaker::closed);
  EXPECT_GE(usage.not_asked, 1u);

  RedisServer server({}, port);
  ASSERT_TRUE(harness.wait_available());
  EXPECT_EQ(harness.write(block).status.to_string(), "ok");
  EXPECT_EQ(harness.read(block).status.to_string(), "ok");
  EXPECT_EQ(harness.store().usage().breaker, Breaker::closed);
}

TEST(RedisFailure, ANameThatNobodyHasIsAServerThatIsAbsent) {
  RedisOptions options = options_for(1);
  options.endpoints[0].host = "no-such-host.invalid";
  RemoteHarness harness(options);
  EXPECT_EQ(harness.read(test_block(test_space(64), 1, 64)).status.code(), StatusCode::unavailable);
  EXPECT_NE(harness.store().usage().last_failure.find("cannot resolve"), std::string::npos)
      << harness.store().usage().last_failure;
}

TEST(RedisFailure, ANameIsLookedUp) {
  RedisServer server;
  RedisOptions options = options_for(server.port());
  options.endpoints[0].host = "localhost";
  RemoteHarness harness(options);
  EXPECT_EQ(harness.write(test_block(test_space(64), 1, 64)).status.to_string(), "ok");
}

TEST(RedisFailure, AServerThatIsKilledAndStartedAgainIsUsedAgain) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const TestBlock block = test_block(test_space(block_bytes), 1, block_bytes);
  ASSERT_TRUE(harness.write(block).status.ok());
  server.kill();
  ASSERT_TRUE(wait_until([&] { return !harness.lookup(chain(1, block_bytes)).status.ok(); }));
  ASSERT_TRUE(harness.wait_available(false));
  server.start();
  ASSERT_TRUE(harness.wait_available());
  EXPECT_EQ(harness.read(block).status.code(), StatusCode::not_found);
  EXPECT_EQ(harness.write(block).status.to_string(), "ok");
  EXPECT_EQ(harness.read(block).status.to_string(), "ok");
  EXPECT_GE(harness.store().usage().reconnects, 1u);
}

TEST(RedisFailure, WhatIsFlushedOrEvictedBetweenExistsAndGetIsAMiss) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const auto blocks = chain(3, block_bytes);
  for (const TestBlock& block : blocks) ASSERT_TRUE(harness.write(block).status.ok());
  ASSERT_EQ(harness.lookup(blocks).present, 3u);
  server.command({"DEL", value_name(blocks[1])});
  EXPECT_EQ(harness.read(blocks[0]).status.to_string(), "ok");
  EXPECT_EQ(harness.read(blocks[1]).status.code(), StatusCode::not_found);
  EXPECT_EQ(harness.lookup(blocks).present, 1u);
  server.command({"FLUSHALL"});
  EXPECT_EQ(harness.read(blocks[0]).status.code(), StatusCode::not_found);
  EXPECT_EQ(harness.lookup(blocks).present, 0u);
}

TEST(RedisFailure, AStalledServerCostsEachRequestItsBudgetUntilItIsNotAsked) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RemoteHarness harness(options_for(proxy.port()));
  const TestBlock block = test_block(test_space(block_bytes), 1, block_bytes);
  ASSERT_TRUE(harness.write(block).status.ok());
  proxy.stall(true);
  // Each is answered though the server never answers; the connections' own time-out is far away.
  for (unsigned i = 0; i < options_for(0).breaker_failures; ++i)
    EXPECT_EQ(harness.read(block, 20).status.code(), StatusCode::unavailable);
  ASSERT_TRUE(harness.wait_available(false));
  RemoteUsage usage = harness.store().usage();
  EXPECT_NE(usage.last_failure.find("no answer in time"), std::string::npos) << usage.last_failure;
  EXPECT_EQ(usage.timed_out, options_for(0).breaker_failures);
  EXPECT_EQ(harness.lookup(chain(1, block_bytes)).status.code(), StatusCode::unavailable);
  proxy.stall(false);
  ASSERT_TRUE(harness.wait_available());
  EXPECT_EQ(harness.read(block).status.to_string(), "ok");
}

// Reads blocks that all are due at once, as those of one prefix are; how many were late.
std::size_t read_together(RemoteHarness& harness, const std::vector<TestBlock>& blocks,
                          std::int64_t budget_ms) {
  const std::int64_t deadline_ns = SystemClock().monotonic_ns() + budget_ms * 1'000'000;
  std::vector<AlignedBuffer> destinations(blocks.size());
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const TestBlock& block = blocks[i];
    destinations[i].ensure(block.bytes);
    tickets.push_back(harness.next_ticket());
    harness.store().read({tickets.back(), block.space, block.key, block.parent, block.tokens,
                          destinations[i].span().first(block.bytes), deadline_ns});
  }
  std::size_t late = 0;
  for (const Ticket ticket : tickets) {
    const RemoteCompletion completion = harness.wait(ticket);
    expect_right_or_none(completion);
    late += !completion.status.ok();
  }
  return late;
}

TEST(RedisFailure, WhatIsLateTogetherIsOneFailure) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RemoteHarness harness(options_for(proxy.port()));
  const auto blocks = chain(64, block_bytes);
  for (const TestBlock& block : blocks) ASSERT_TRUE(harness.write(block).status.ok());
  proxy.stall(true);
  for (unsigned i = 0; i < options_for(0).breaker_failures; ++i) {
    EXPECT_TRUE(harness.store().available()) << i;
    EXPECT_EQ(read_together(harness, blocks, 200), blocks.size());
  }
  EXPECT_TRUE(harness.wait_available(false));
}

TEST(RedisFailure, AServerThatIsMerelySlowerThanAPrefixIsLongStaysAsked) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RedisOptions options = options_for(proxy.port());
  options.breaker_failures = 1;
  RemoteHarness harness(options);
  const auto blocks = chain(64, block_bytes);
  for (const TestBlock& block : blocks) ASSERT_TRUE(harness.write(block).status.ok());
  proxy.throttle(4 * kib);  // a millisecond: two seconds for them all
  const std::size_t late = read_together(harness, blocks, 600);
  EXPECT_GT(late, 1u);
  EXPECT_EQ(harness.store().usage().timed_out, late);
  EXPECT_TRUE(harness.store().available());
  EXPECT_EQ(harness.store().usage().last_failure, "");
  proxy.throttle(0);
  EXPECT_EQ(harness.read(blocks.back()).status.to_string(), "ok");
}

TEST(RedisFailure, WhatIsInFlightIsBounded) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RedisOptions options = options_for(proxy.port());
  options.max_in_flight_bytes = mib;
  RemoteHarness harness(options);
  const auto blocks = chain(64, block_bytes);
  for (const TestBlock& block : blocks) ASSERT_TRUE(harness.write(block).status.ok());
  proxy.stall(true);
  std::vector<AlignedBuffer> destinations(blocks.size());
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    tickets.push_back(harness.start_read(blocks[i], destinations[i]));
    tickets.push_back(harness.start_write(blocks[i]));
  }
  // Its answer comes after everything before it was handed out, as far as it may be.
  harness.lookup(blocks, 1);
  std::uint64_t most = harness.store().usage().in_flight_bytes;
  EXPECT_GT(most + block_bytes + record_header_bytes, options.max_in_flight_bytes);
  proxy.stall(false);
  for (const Ticket ticket : tickets) {
    EXPECT_EQ(harness.wait(ticket).status.to_string(), "ok");
    most = std::max(most, harness.store().usage().in_flight_bytes);
  }
  EXPECT_LE(most, options.max_in_flight_bytes);
  EXPECT_EQ(harness.store().usage().in_flight_bytes, 0u);
}

TEST(RedisFailure, AServerThatHangsWithoutDeadlinesIsFoundOutByTheRequestTimeout) {
  RedisServer server;
  RedisOptions options = options_for(server.port());
  options.request_timeout_ms = 50;
  options.connect_timeout_ms = 50;
  RemoteHarness harness(options);
  const TestBlock block = test_block(test_space(64), 1, 64);
  ASSERT_TRUE(wait_until([&] { return harness.write(block).status.ok(); }));
  server.freeze();
  ASSERT_TRUE(wait_until([&] {
    EXPECT_EQ(harness.read(block).status.code(), StatusCode::unavailable);
    return !harness.store().available();
  }));
  server.thaw();
  ASSERT_TRUE(wait_until([&] { return harness.read(block).status.ok(); }));
}

TEST(RedisFailure, WhatComesAfterTheAnswerIsNotWrittenToMemoryThatWasGivenBack) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RedisOptions options = options_for(proxy.port());
  options.connections_per_server = 1;
  options.breaker_failures = 100;
  RemoteHarness harness(options);
  const auto blocks = chain(2, 3 * mib);
  for (const TestBlock& block : blocks) ASSERT_TRUE(harness.write(block).status.ok());
  proxy.stall_after(mib);
  AlignedBuffer destination;
  const Ticket ticket = harness.start_read(blocks[0], destination, 300);
  EXPECT_EQ(harness.wait(ticket).status.code(), StatusCode::unavailable);
  ASSERT_TRUE(proxy.done());
  std::memset(destination.data(), 0x5a, destination.size());
  proxy.stall(false);
  // On the same connection, behind the rest of the first value.
  EXPECT_EQ(harness.read(blocks[1]).status.to_string(), "ok");
  for (std::size_t i = 0; i < destination.size(); ++i)
    ASSERT_EQ(destination.data()[i], std::byte{0x5a}) << i;
}

TEST(RedisFailure, AWriteThatIsGivenUpInItsMiddleLeavesNothing) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RedisOptions options = options_for(proxy.port());
  options.request_timeout_ms = 200;
  RemoteHarness harness(options);
  ASSERT_TRUE(
      wait_until([&] { return harness.write(test_block(test_space(64), 9, 64)).status.ok(); }));
  const TestBlock block = test_block(test_space(16 * mib), 1, 16 * mib);
  proxy.stall(true);
  EXPECT_EQ(harness.write(block).status.code(), StatusCode::unavailable);
  std::memset(block.buffer.data(), 0x5a, block.bytes);
  proxy.stall(false);
  ASSERT_TRUE(
      wait_until([&] { return harness.write(test_block(test_space(64), 9, 64)).status.ok(); }));
  // Only what was sent before it was given up may have reached the server: not all of it.
  EXPECT_EQ(server.command({"EXISTS", value_name(block)}).text, "0");
}

TEST(RedisFailure, AConnectionThatIsCutInTheMiddleOfAValueIsReplacedByAnother) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RemoteHarness harness(options_for(proxy.port()));
  const auto blocks = chain(8, 720 * kib);
  for (const TestBlock& block : blocks) ASSERT_TRUE(harness.write(block).status.ok());
  std::size_t cut = 0;
  for (const std::uint64_t at : {0ul, 1ul, 8ul, 100ul, 4096ul, 4106ul, 500'000ul, 741'389ul,
                                 741'390ul, 1'000'000ul, 3'000'000ul}) {
    proxy.cut_after(at);
    std::vector<AlignedBuffer> destinations(blocks.size());
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      tickets.push_back(harness.start_read(blocks[i], destinations[i]));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const RemoteCompletion completion = harness.wait(tickets[i]);
      expect_right_or_none(completion);
      if (completion.status.ok()) {
        EXPECT_EQ(std::memcmp(destinations[i].data(), blocks[i].payload().data(), blocks[i].bytes),
                  0);
      }
    }
    cut += proxy.done();
    ASSERT_TRUE(wait_until([&] { return harness.read(blocks[0]).status.ok(); }));
  }
  EXPECT_EQ(cut, 11u);
}

TEST(RedisFailure, DamageOnTheWayIsNeverServed) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RedisOptions options = options_for(proxy.port());
  options.request_timeout_ms = 500;
  options.connections_per_server = 1;
  RemoteHarness harness(options);
  const TestBlock block = test_block(test_space(64 * kib), 1, 64 * kib);
  const std::string name = value_name(block), value = value_of(block);
  // $69632\r\n, the header, the payload, \r\n.
  for (const std::uint64_t at :
       {0, 1, 3, 6, 7, 8, 16, 100, 250, 300, 4000, 4103, 4104, 20'000, 69'639, 69'640, 69'641}) {
    server.command({"SET", name, value});
    ASSERT_TRUE(wait_until([&] { return harness.read(block).status.ok(); })) << at;
    proxy.corrupt_after(at);
    const RemoteCompletion completion = harness.read(block);
    EXPECT_TRUE(proxy.done());
    if (completion.status.code() == StatusCode::corruption) {
      ASSERT_TRUE(wait_until([&] { return server.command({"EXISTS", name}).text == "0"; }));
    }
    // A flipped bit of the framing may look like many things; what lies in the record like one.
    if (at >= 8 && at < 69'640) {
      EXPECT_EQ(completion.status.code(), StatusCode::corruption) << at;
    }
  }
  EXPECT_GE(harness.store().usage().corrupt, 9u);
}

TEST(RedisFailure, ASlowWayIsOnlySlow) {
  RedisServer server;
  TcpProxy proxy(server.port());
  proxy.delay_ms(20);
  RemoteHarness harness(options_for(proxy.port()));
  const auto blocks = chain(4, block_bytes);
  for (const TestBlock& block : blocks) EXPECT_EQ(harness.write(block).status.to_string(), "ok");
  EXPECT_EQ(harness.lookup(blocks).present, 4u);
  for (const TestBlock& block : blocks) EXPECT_EQ(harness.read(block).status.to_string(), "ok");
}

class RedisForeignValue : public ::testing::Test {
 protected:
  // Reads the block; what lay there must be found wrong, and be gone afterwards.
  void expect_corrupt_and_deleted(const char* what) {
    EXPECT_EQ(harness_.read(block_).status.code(), StatusCode::corruption) << what;
    EXPECT_TRUE(wait_until([&] { return server_.command({"EXISTS", name_}).text == "0"; })) << what;
    EXPECT_EQ(harness_.store().usage().corrupt, ++corrupt_) << what;
    EXPECT_TRUE(harness_.store().available()) << what;
  }
  void set(const std::string& value) { ASSERT_TRUE(server_.command({"SET", name_, value}).ok()); }
  std::int64_t sent_bytes() const {
    return server_.number({"INFO", "stats"}, "total_net_output_bytes").value_or(0);
  }
  static RedisOptions limited(std::uint16_t port) {
    RedisOptions options = options_for(port);
    options.max_value_bytes = mib;
    return options;
  }

  RedisServer server_;
  RemoteHarness harness_{limited(server_.port())};
  TestBlock block_ = test_block(test_space(block_bytes), 1, block_bytes);
  std::string name_ = value_name(block_), value_ = value_of(block_);
  std::uint64_t corrupt_ = 0;
};

TEST_F(RedisForeignValue, OfAnyShapeIsDeleted) {
  for (const std::string& value :
       {std::string(), std::string("hello"), std::string(record_header_bytes, 'x'),
        std::string(value_.size(), 'x'), value_.substr(0, value_.size() - 1), value_ + "x",
        value_.substr(0, record_header_bytes)}) {
    set(value);
    expect_corrupt_and_deleted(std::to_string(value.size()).c_str());
  }
}

TEST_F(RedisForeignValue, AFlippedBitAnywhereIsDeleted) {
  for (const std::size_t at :
       {0ul, 8ul, 40ul, 64ul, 100ul, 130ul, 300ul, 4090ul, 4096ul, 70'000ul, value_.size() - 1}) {
    std::string value = value_;
    value[at] = static_cast<char>(value[at] ^ 4);
    set(value);
    expect_corrupt_and_deleted(std::to_string(at).c_str());
  }
}

TEST_F(RedisForeignValue, TheRecordOfAnotherBlockIsDeleted) {
  const TestBlock other = test_block(test_space(block_bytes), 2, block_bytes);
  set(value_of(other));
  expect_corrupt_and_deleted("another block");
  // The same key, but of another prefix than is asked for.
  set(value_);
  const BlockKey parent = block_.parent;
  block_.parent = other.key;
  expect_corrupt_and_deleted("another parent");
  block_.parent = parent;
  set(value_);
  block_.tokens[0] ^= 1;
  expect_corrupt_and_deleted("other tokens");
}

TEST_F(RedisForeignValue, ARecordOfAnotherFormatUnderOurNameIsDeleted) {
  std::string value = value_;
  store_le<std::uint32_t>(value.data() + 8, record_version + 1);
  store_le<std::uint64_t>(value.data() + record_header_bytes - 8,
                          xxh3(std::as_bytes(std::span(value)).first(record_header_bytes - 8)));
  set(value);
  expect_corrupt_and_deleted("another version");
}

TEST_F(RedisForeignValue, WhatIsNoStringIsDeleted) {
  ASSERT_TRUE(server_.command({"RPUSH", name_, "a", "b"}).ok());
  expect_corrupt_and_deleted("a list");
  ASSERT_TRUE(server_.command({"HSET", name_, "a", "b"}).ok());
  expect_corrupt_and_deleted("a hash");
}

TEST_F(RedisForeignValue, OneThatIsLargerThanAllowedIsNotReceivedAndDeleted) {
  const auto others = chain(6, block_bytes, 100);
  for (const TestBlock& other : others) ASSERT_TRUE(harness_.write(other).status.ok());
  set(std::string(64 * mib, 'x'));
  const std::int64_t before = sent_bytes();
  std::vector<AlignedBuffer> destinations(others.size() + 1);
  std::vector<Ticket> tickets;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (i == 3) tickets.push_back(harness_.start_read(block_, destinations.back()));
    tickets.push_back(harness_.start_read(others[i], destinations[i]));
  }
  for (std::size_t i = 0; i < tickets.size(); ++i)
    EXPECT_EQ(harness_.wait(tickets[i]).status.code(),
              i == 3 ? StatusCode::corruption : StatusCode::ok);
  EXPECT_TRUE(wait_until([&] { return server_.command({"EXISTS", name_}).text == "0"; }));
  EXPECT_LT(sent_bytes() - before, static_cast<std::int64_t>(32 * mib));
  EXPECT_TRUE(harness_.store().available());
}

TEST_F(RedisForeignValue, ABlockInACodecThatIsNotReadHereIsAMissAndStays) {
  RecordHeader header;
  header.space = block_.space;
  header.key = block_.key;
  header.parent = block_.parent;
  header.tokens = block_.tokens;
  header.codec = Codec::zstd;
  header.payload_bytes = block_bytes;
  header.stored_bytes = 1000;
  std::string value(record_header_bytes + 1000, 'z');
  ASSERT_TRUE(encode_record_header(
                  header, std::as_writable_bytes(std::span(value)).first(record_header_bytes))
                  .ok());
  set(value);
  EXPECT_EQ(harness_.read(block_).status.code(), StatusCode::not_found);
  EXPECT_EQ(harness_.store().usage().corrupt, 0u);
  EXPECT_EQ(server_.command({"EXISTS", name_}).text, "1");
}

TEST(RedisFailure, ClosesInTheMiddleOfWork) {
  RedisServer server;
  TcpProxy proxy(server.port());
  RemoteHarness harness(options_for(proxy.port()));
  const auto blocks = chain(4, 3 * mib);
  for (const TestBlock& block : blocks) ASSERT_TRUE(harness.write(block).status.ok());
  proxy.stall_after(mib);
  std::vector<AlignedBuffer> destinations(blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    harness.start_read(blocks[i], destinations[i]);
    harness.start_write(blocks[i]);
  }
  ASSERT_TRUE(wait_until([&] { return proxy.done(); }));
  harness.close();
}

}  // namespace
}  // namespace terrace::storage
