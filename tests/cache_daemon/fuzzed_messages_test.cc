// A conversation that makes sense, recorded, and sent again and again with something wrong in it:
// whatever becomes of that connection, others are served.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <random>

#include "core/checksum.h"
#include "protocol/packed.h"
#include "tests/cache_daemon/protocol_fixture.h"

namespace terrace::daemon {
namespace {

using Message = std::string;

class FuzzedMessagesTest : public ProtocolFixture {
 protected:
  static constexpr int rounds = 1000;
  static constexpr std::size_t max_mutations = 4;

  // What a client says, message for message, in a conversation with the daemon.
  std::vector<Message> record() {
    auto to_daemon = client::connect_to_socket(io_, daemon_->socket_path());
    EXPECT_TRUE(to_daemon.has_value());
    auto pipe = io_.provider->newTwoWayPipe();
    std::string said;
    auto forth = copy(*pipe.ends[1], **to_daemon, &said).eagerlyEvaluate(nullptr);
    auto back = copy(**to_daemon, *pipe.ends[1], nullptr).eagerlyEvaluate(nullptr);
    {
      capnp::TwoPartyClient rpc(*pipe.ends[0]);
      auto daemon = rpc.bootstrap().castAs<protocol::Daemon>();
      converse(daemon);
    }
    return split(said);
  }

  kj::Promise<void> copy(kj::AsyncIoStream& from, kj::AsyncIoStream& to, std::string* record) {
    auto buffer = kj::heapArray<kj::byte>(1 << 16);
    auto* const bytes = buffer.begin();
    return from.tryRead(bytes, 1, buffer.size())
        .then([this, &from, &to, record,
               buffer = kj::mv(buffer)](std::size_t got) mutable -> kj::Promise<void> {
          if (got == 0) return kj::READY_NOW;
          if (record) record->append(reinterpret_cast<const char*>(buffer.begin()), got);
          auto* const read = buffer.begin();
          return to.write(read, got).attach(kj::mv(buffer)).then([this, &from, &to, record] {
            return copy(from, to, record);
          });
        });
  }

  void converse(protocol::Daemon::Client& daemon) {
    auto asked = daemon.loginRequest();
    asked.setProtocolVersion(protocol::PROTOCOL_VERSION);
    asked.setClientName("recorded");
    auto login = wait(asked.send());
    auto ping = daemon.pingRequest();
    ping.initData(100);
    ping.setReplyBytes(100);
    wait(ping.send());
    auto session = wait(login.getWorker().openSessionRequest().send()).getSession();
    wait(session.deviceArenaRequest().send());
    wait(session.hostArenaRequest().send());
    auto opened = wait(space_request(session).send());
    auto space = opened.getSpace();
    const BlockKey digest = *protocol::unpack_key(opened.getDigest());
    std::vector<Token> tokens(96);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i);
    const auto keys = derive_block_keys(digest, tokens, 32);

    const auto match = [&] {
      auto request = space.matchRequest();
      request.setKeys(protocol::pack(std::span<const BlockKey>(keys)));
      request.setTokens(protocol::pack(std::span<const Token>(tokens)));
      wait(request.send());
    };
    match();
    auto reserve = space.reserveRequest();
    reserve.setLease(1);
    reserve.setKeys(protocol::pack(std::span<const BlockKey>(keys)));
    reserve.setUnnamed(2);
    auto reserved = wait(reserve.send());
    const auto slots = *protocol::unpack<std::uint64_t>(reserved.getSlots());
    auto seal = space.sealRequest();
    seal.setLease(1);
    auto blocks = seal.initBlocks(static_cast<unsigned>(keys.size()));
    for (unsigned i = 0; i < blocks.size(); ++i) {
      blocks[i].setSlot(slots[i]);
      blocks[i].setParent(protocol::pack(i == 0 ? digest : keys[i - 1]));
      blocks[i].setTokens(protocol::pack(std::span<const Token>(tokens).subspan(i * 32, 32)));
      blocks[i].setChecksum(i);
    }
    wait(seal.send());
    match();
    auto acquire = space.acquireRequest();
    acquire.setLease(2);
    acquire.setKeys(protocol::pack(std::span<const BlockKey>(keys)));
    acquire.setPrefillTokensPerSecond(1000);
    wait(acquire.send());

    auto viewer = login.getViewer();
    wait(viewer.statsRequest().send());
    auto list = viewer.listBlocksRequest();
    list.setLimit(10);
    wait(list.send());
    wait(viewer.listSpacesRequest().send());
    wait(viewer.listPinsRequest().send());
    auto inspect = viewer.inspectRequest();
    inspect.setKey(protocol::pack(keys[1]));
    wait(inspect.send());
    auto explain = viewer.explainRequest();
    explain.setSpace(protocol::pack(digest));
    explain.setTokens(protocol::pack(std::span<const Token>(tokens)));
    wait(explain.send());
    wait(viewer.sessionsRequest().send());

    auto operations = login.getOperator();
    auto warm = operations.warmRequest();
    warm.setSpace(protocol::pack(digest));
    warm.setKeys(protocol::pack(std::span<const BlockKey>(keys)));
    wait(warm.send());
    auto read = operations.readBlockRequest();
    read.setKey(protocol::pack(keys[0]));
    read.setBytes(4096);
    fails(read.send());
    auto pin = operations.pinRequest();
    pin.setKey(protocol::pack(keys[2]));
    pin.setTtlMs(1000);
    fails(pin.send());
    auto unpin = operations.unpinRequest();
    unpin.setKey(protocol::pack(keys[2]));
    fails(unpin.send());
    auto evict = operations.evictRequest();
    evict.setKey(protocol::pack(keys[2]));
    fails(evict.send());
    auto drop = operations.dropSpaceRequest();
    drop.setDigest(protocol::pack(digest));
    fails(drop.send());

    auto release = space.releaseRequest();
    auto leases = release.initLeases(2);
    leases.set(0, 1);
    leases.set(1, 2);
    wait(release.send());
    auto nothing = session.touchesNothingRequest();
    nothing.initSessionIds(1).set(0, 12345);
    wait(nothing.send());
  }

  static std::uint32_t word_at(const std::string& bytes, std::size_t at) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    return word;
  }

  static std::vector<Message> split(const std::string& said) {
    std::vector<Message> messages;
    for (std::size_t at = 0; at < said.size();) {
      const std::size_t segments = word_at(said, at) + 1;
      std::size_t size = (4 + 4 * segments + 7) / 8 * 8;
      for (std::size_t i = 0; i < segments; ++i) size += 8 * word_at(said, at + 4 + 4 * i);
      messages.push_back(said.substr(at, size));
      at += size;
    }
    return messages;
  }

  // One thing wrong, somewhere from message `first` on.
  void mutate(std::vector<Message>& messages, std::size_t first) {
    const std::size_t which = first + random_() % (messages.size() - first);
    Message& message = messages[which];
    if (message.empty()) return;
    constexpr std::array<std::uint32_t, 8> extremes = {
        0, 1, 0x7f, 0xffff, 0x1fffffff, 0x7fffffff, 0x80000000, 0xffffffff};
    const auto set_word = [&](std::size_t at) {
      const std::uint32_t word = extremes[random_() % extremes.size()];
      if (at + sizeof word <= message.size()) std::memcpy(message.data() + at, &word, sizeof word);
    };
    switch (random_() % 8) {
      case 0:  // of the segment table
        set_word(4 * (random_() % 2));
        break;
      case 1:
      case 2:
        for (unsigned left = 1 + random_() % 8; left > 0; --left)
          message[random_() % message.size()] ^= static_cast<char>(1 << random_() % 8);
        break;
      case 3:
      case 4:  // of a pointer, a count, an id
        set_word(8 + 4 * (random_() % std::max<std::size_t>((message.size() - 8) / 4, 1)));
        break;
      case 5:
        message.resize(random_() % message.size());
        break;
      case 6:
        messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(which),
                        messages[random_() % messages.size()]);
        break;
      default:
        std::swap(message, messages[first + random_() % (messages.size() - first)]);
    }
  }

  // What came of it does not matter here. The other side may close at any byte.
  void say(const std::vector<Message>& messages) {
    const auto fd = connect_bare();
    std::string all;
    for (const Message& message : messages) all += message;
    for (std::size_t at = 0; at < all.size();) {
      const ssize_t sent = ::send(fd.get(), all.data() + at, all.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<std::size_t>(sent);
    }
    ::shutdown(fd.get(), SHUT_WR);
    std::array<char, 1 << 16> answers;
    // Until the daemon has come to an end with it, one way or the other.
    while (::recv(fd.get(), answers.data(), answers.size(), 0) > 0) {
    }
  }

  // Of the sessions that were opened on the way: their process, this one, lives on.
  void disown_all(protocol::Session::Client& session, protocol::Viewer::Client& viewer) {
    const auto text = wait(viewer.sessionsRequest().send());
    std::vector<std::uint64_t> ids;
    for (const auto& one : nlohmann::json::parse(std::string(text.getJson().cStr())))
      if (!one.at("connected").get<bool>()) ids.push_back(one.at("id"));
    auto request = session.touchesNothingRequest();
    auto list = request.initSessionIds(static_cast<unsigned>(ids.size()));
    for (unsigned i = 0; i < ids.size(); ++i) list.set(i, ids[i]);
    wait(request.send());
  }

  std::mt19937 random_{20261130};
};

TEST_F(FuzzedMessagesTest, OthersAreServedWhateverOneSays) {
  start_daemon({"log.level=error", "limits.login_deadline_ms=2000", "host.capacity=\"4MiB\""});
  const std::vector<Message> recorded = record();
  ASSERT_GT(recorded.size(), 30u);
  const auto bystander = connect();
  auto session = open_session(*bystander);
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::vector<Message> messages = recorded;
    // The first ones are bootstrap and login: mostly they are right, so that others get further.
    const std::size_t first = round % 8 == 0 ? 0 : 2;
    for (unsigned left = 1 + random_() % max_mutations; left > 0; --left) mutate(messages, first);
    say(messages);
    ASSERT_FALSE(fails(bystander->daemon.pingRequest().send())) << daemon_->log();
    if (round % 64 == 0) disown_all(session, bystander->operations);
  }
  EXPECT_TRUE(
      test_support::wait_until([&] { return stats(*bystander).at("connections") == 1; }, patience));
  disown_all(session, bystander->operations);
  const auto after = stats(*bystander);
  EXPECT_EQ(after.at("sessions"), 1);
  EXPECT_EQ(after.at("leases"), 0);
  EXPECT_EQ(after.at("reserved_slots"), 0);
  // Under AddressSanitizer, nothing has leaked either.
  EXPECT_EQ(daemon_->stop(), 0) << daemon_->log();
}

}  // namespace
}  // namespace terrace::daemon
