// Whoever speaks nonsense loses the own connection, and nobody else notices.
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <random>

#include "tests/cache_daemon/protocol_fixture.h"
#include "tests/support/process.h"

namespace terrace::daemon {
namespace {

class HostileClientTest : public ProtocolFixture {
 protected:
  void SetUp() override {
    start_daemon({"limits.max_message_bytes=\"64KiB\"", "limits.max_queued_bytes=\"64KiB\""});
    bystander_ = connect();
    open_session(*bystander_);
  }

  void TearDown() override {
    auto ping = bystander_->daemon.pingRequest();
    EXPECT_FALSE(fails(ping.send())) << daemon_->log();
    EXPECT_EQ(stats(*bystander_).at("sessions"), 1);
  }

  // False once the other side has closed the connection.
  static bool send(const UniqueFd& fd, const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(fd.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent < 0) return false;
      at += static_cast<std::size_t>(sent);
    }
    return true;
  }

  static bool is_cut(const UniqueFd& fd) {
    pollfd waiting{fd.get(), POLLHUP | POLLRDHUP, 0};
    return ::poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) == 1;
  }

  // A segment table as it lies at the start of a message.
  static std::string segment_table(std::uint32_t segments, std::uint32_t words) {
    std::string bytes(8, '\0');
    const std::uint32_t count = segments - 1;
    std::memcpy(bytes.data(), &count, 4);
    std::memcpy(bytes.data() + 4, &words, 4);
    return bytes;
  }

  using Calls = std::vector<kj::Promise<void>>;
  // What a client would send that makes these calls; at least `bytes` of it.
  std::string recorded(std::size_t bytes,
                       kj::FunctionParam<void(protocol::Daemon::Client&, Calls&)> make_calls) {
    auto pipe = io_.provider->newTwoWayPipe();
    std::string recording;
    capnp::TwoPartyClient client(*pipe.ends[0]);
    auto daemon = client.bootstrap().castAs<protocol::Daemon>();
    Calls calls;
    make_calls(daemon, calls);
    std::vector<char> buffer(1 << 16);
    while (recording.size() < bytes)
      recording.append(buffer.data(), wait(pipe.ends[1]->read(buffer.data(), 1, buffer.size())));
    return recording;
  }
  static auto recorded_login(protocol::Daemon::Client& daemon) {
    auto login = daemon.loginRequest();
    login.setProtocolVersion(protocol::PROTOCOL_VERSION);
    return login.send();
  }

  std::unique_ptr<Connection> bystander_;
};

TEST_F(HostileClientTest, RandomBytes) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    const auto fd = connect_bare();
    std::string noise(4096, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    send(fd, noise);
    // Its first word asks for more segments than any message may have.
    EXPECT_TRUE(is_cut(fd));
  }
}

TEST_F(HostileClientTest, ATableOfTooManySegments) {
  const auto fd = connect_bare();
  send(fd, segment_table(0x7fffffff, 1));
  EXPECT_TRUE(is_cut(fd));
}

TEST_F(HostileClientTest, AMessageThatIsTooLarge) {
  const auto fd = connect_bare();
  send(fd, segment_table(1, 0x0fffffff));
  EXPECT_TRUE(is_cut(fd));
}

TEST_F(HostileClientTest, HalfAMessage) {
  auto fd = connect_bare();
  send(fd, segment_table(1, 1000) + std::string(100, '\0'));
  // Waiting for the rest is right; but not for ever once the client has gone.
  EXPECT_TRUE(test_support::wait_until([&] { return stats(*bystander_).at("connections") == 2; }));
  fd.reset();
  EXPECT_TRUE(test_support::wait_until([&] { return stats(*bystander_).at("connections") == 1; }));
}

TEST_F(HostileClientTest, AMessageThatMeansNothing) {
  const auto fd = connect_bare();
  send(fd, segment_table(1, 8) + std::string(64, '\xff'));
  EXPECT_TRUE(is_cut(fd));
}

TEST_F(HostileClientTest, WhoSendsAndDoesNotReadIsCut) {
  constexpr unsigned pings = 400, bytes = 32 << 10;
  const auto calls = recorded(pings * bytes, [](auto& daemon, Calls& made) {
    made.push_back(recorded_login(daemon).ignoreResult());
    for (unsigned i = 0; i < pings; ++i) {
      auto request = daemon.pingRequest();
      request.initData(bytes);
      request.setReplyBytes(bytes);
      made.push_back(request.send().ignoreResult());
    }
  });
  const auto fd = connect_bare();
  EXPECT_FALSE(send(fd, calls));
  EXPECT_TRUE(is_cut(fd));
}

TEST_F(HostileClientTest, SoIsWhoDoesNotReadBeforeLogin) {
  constexpr unsigned count = 5000, least_bytes = 64;
  const auto calls = recorded(count * least_bytes, [](auto& daemon, Calls& made) {
    for (unsigned i = 0; i < count; ++i) made.push_back(daemon.infoRequest().send().ignoreResult());
  });
  const auto fd = connect_bare();
  send(fd, calls);
  EXPECT_TRUE(is_cut(fd));
}

TEST_F(HostileClientTest, SoIsAnOperatorWhoDoesNotRead) {
  constexpr unsigned count = 1000, least_bytes = 64;
  const auto calls = recorded(count * least_bytes, [](auto& daemon, Calls& made) {
    auto viewer = recorded_login(daemon).getViewer();
    for (unsigned i = 0; i < count; ++i)
      made.push_back(viewer.statsRequest().send().ignoreResult());
  });
  const auto fd = connect_bare();
  send(fd, calls);
  EXPECT_TRUE(is_cut(fd));
}

}  // namespace
}  // namespace terrace::daemon
