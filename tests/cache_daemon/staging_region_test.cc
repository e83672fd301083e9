// Clients of a staging region that do what the client library never does.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <limits>

#include "core/checksum.h"
#include "core/put_outcome.h"
#include "core/shared_memory.h"
#include "protocol/packed.h"
#include "tests/cache_daemon/protocol_fixture.h"

namespace terrace::daemon {
namespace {

using protocol::pack;

class StagingRegionTest : public ProtocolFixture {
 protected:
  static constexpr std::uint32_t block_tokens = 32;
  static constexpr std::uint64_t block_bytes = 64 << 10;
  static constexpr std::uint64_t region_bytes = 16 * block_bytes;

  ~StagingRegionTest() noexcept override = default;

  void open(std::vector<std::string> settings = {}) {
    start_daemon(std::move(settings));
    connection_ = connect();
    session_ = open_session(*connection_);
    auto opened = wait(space_request(session_).send());
    space_ = opened.getSpace();
    digest_ = *protocol::unpack_key(opened.getDigest());
    auto request = session_.stagingRequest();
    request.setBytes(region_bytes);
    request.setShared(true);
    auto answer = wait(request.send());
    EXPECT_EQ(answer.getBytes(), region_bytes);
    staging_ = answer.getStaging();
    auto fd = wait(staging_.getFd());
    KJ_IF_MAYBE (number, fd) {
      fd_ = UniqueFd(::dup(*number));
    }
    auto mapping = SharedMapping::map(fd_.get(), region_bytes, SharedMapping::Access::read_write);
    ASSERT_TRUE(mapping.has_value()) << mapping.error().message();
    memory_ = std::move(*mapping);
  }

  auto put_request(std::vector<std::uint64_t> offsets, std::size_t token_count,
                   std::vector<std::uint64_t> checksums) {
    auto request = space_.putRequest();
    request.setParent(pack(digest_));
    const std::vector<Token> prompt(token_count, 5);
    request.setTokens(pack(std::span<const Token>(prompt)));
    request.setOffsets(pack(std::span<const std::uint64_t>(offsets)));
    request.setChecksums(pack(std::span<const std::uint64_t>(checksums)));
    return request;
  }
  auto get_request(std::vector<std::uint64_t> offsets, std::size_t keys) {
    auto request = space_.getRequest();
    const std::vector<BlockKey> asked(keys);
    request.setKeys(pack(std::span<const BlockKey>(asked)));
    request.setOffsets(pack(std::span<const std::uint64_t>(offsets)));
    return request;
  }
  std::uint64_t checksum_at(std::uint64_t offset) const {
    return payload_checksum({memory_.data() + offset, block_bytes});
  }
  void expect_alive() { EXPECT_EQ(stats(*connection_).at("leases"), 0); }

  std::unique_ptr<Connection> connection_;
  protocol::Session::Client session_ = nullptr;
  protocol::Space::Client space_ = nullptr;
  protocol::Staging::Client staging_ = nullptr;
  BlockKey digest_;
  UniqueFd fd_;
  SharedMapping memory_;
};

TEST_F(StagingRegionTest, PlacesOutsideAndCountsThatDoNotFitFailTheirCallOnly) {
  open();
  const std::uint64_t bad[] = {region_bytes, region_bytes - block_bytes + 64, 63,
                               std::numeric_limits<std::uint64_t>::max(),
                               std::numeric_limits<std::uint64_t>::max() - block_bytes + 1};
  for (const std::uint64_t offset : bad) {
    EXPECT_TRUE(fails(put_request({offset}, block_tokens, {1}).send())) << offset;
    EXPECT_TRUE(fails(get_request({offset}, 1).send())) << offset;
  }
  EXPECT_TRUE(fails(put_request({0}, block_tokens - 1, {1}).send()));
  EXPECT_TRUE(fails(put_request({0}, 2 * block_tokens, {1}).send()));
  EXPECT_TRUE(fails(put_request({0}, block_tokens, {}).send()));
  EXPECT_TRUE(fails(get_request({0, block_bytes}, 1).send()));
  EXPECT_TRUE(fails(get_request(std::vector<std::uint64_t>(257, 0), 257).send()));
  auto cut_short = space_.putRequest();
  cut_short.setParent(pack(digest_));
  cut_short.initOffsets(7);
  EXPECT_TRUE(fails(cut_short.send()));
  // All of it by messages.
  for (const std::uint64_t offset : bad) {
    auto write = staging_.writeRequest();
    write.setOffset(offset);
    write.initData(block_bytes);
    auto read = staging_.readRequest();
    read.setOffset(offset);
    read.setBytes(block_bytes);
    if (offset == 63) continue;  // these need no alignment
    EXPECT_TRUE(fails(write.send())) << offset;
    EXPECT_TRUE(fails(read.send())) << offset;
  }
  auto huge = staging_.readRequest();
  huge.setBytes(static_cast<std::uint32_t>(region_bytes));
  EXPECT_TRUE(fails(huge.send()));
  expect_alive();
}

TEST_F(StagingRegionTest, BytesThatAreNotThoseOfTheChecksumAreRefused) {
  open();
  std::memset(memory_.data(), 3, block_bytes);
  const std::uint64_t checksum = checksum_at(0);
  memory_.data()[block_bytes - 1] = std::byte{4};
  const auto outcome = [&] {
    return wait(put_request({0}, block_tokens, {checksum}).send()).getOutcomes()[0];
  };
  EXPECT_EQ(outcome(), static_cast<std::uint8_t>(PutOutcome::refused));
  EXPECT_EQ(stats(*connection_).at("tiers").at("device").at("blocks"), 0);
  EXPECT_EQ(stats(*connection_).at("reserved_slots"), 0);
  memory_.data()[block_bytes - 1] = std::byte{3};
  EXPECT_EQ(outcome(), static_cast<std::uint8_t>(PutOutcome::stored));
  // What is written to the region afterwards changes nothing.
  std::memset(memory_.data(), 9, block_bytes);
  auto get = space_.getRequest();
  const std::vector<Token> prompt(block_tokens, 5);
  get.setKeys(pack(derive_block_key(digest_, prompt)));
  const std::uint64_t to = block_bytes;
  get.setOffsets(pack(std::span(&to, 1)));
  EXPECT_EQ(wait(get.send()).getTiers().size(), 1u);
  EXPECT_EQ(checksum_at(block_bytes), checksum);
  expect_alive();
}

TEST_F(StagingRegionTest, ItsSizeIsSealedAndThereIsOneASession) {
  open({"limits.staging_per_session=\"1MiB\""});
  EXPECT_NE(::ftruncate(fd_.get(), 4096), 0);
  EXPECT_NE(::ftruncate(fd_.get(), 2 * region_bytes), 0);
  EXPECT_NE(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_TRUE(fails(session_.stagingRequest().send()));
  const auto other = connect();
  auto session = open_session(*other);
  auto request = session.stagingRequest();
  request.setBytes(std::uint64_t{1} << 60);
  auto answer = wait(request.send());
  EXPECT_EQ(answer.getBytes(), 1u << 20);
  // Not asked for as shared memory: no descriptor.
  auto fd = wait(answer.getStaging().getFd());
  EXPECT_TRUE(fd == nullptr);
  // And what it names is nothing in a session that has none.
  const auto third = connect();
  auto bare = open_session(*third);
  auto space = open_space(bare);
  auto put = space.putRequest();
  put.setParent(pack(digest_));
  EXPECT_TRUE(fails(put.send()));
  expect_alive();
}

TEST_F(StagingRegionTest, MoreTransfersThanAllowedAreRefusedAndTheirEndMakesRoom) {
  open();
  const auto worker = connect();
  auto worker_session = open_session(*worker);
  auto worker_space = open_space(worker_session);
  const BlockKey pending{};
  auto reserve = worker_space.reserveRequest();
  reserve.setLease(1);
  reserve.setKeys(pack(pending));
  wait(reserve.send());
  {
    kj::Vector<kj::Promise<void>> waiting;
    for (int i = 0; i < 64; ++i) {
      auto get = get_request({0}, 1);
      get.setWaitMs(60'000);
      waiting.add(get.send().ignoreResult());
    }
    EXPECT_TRUE(fails(get_request({0}, 1).send()));
    EXPECT_EQ(stats(*connection_).at("waiting_acquires"), 64);
  }
  // Given up by their client: each call's answer is not wanted any more.
  EXPECT_EQ(stats(*connection_).at("waiting_acquires"), 0);
  EXPECT_EQ(wait(get_request({0}, 1).send()).getTiers().size(), 0u);
  EXPECT_EQ(stats(*connection_).at("leases"), 1);
}

}  // namespace
}  // namespace terrace::daemon
