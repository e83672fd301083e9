// A real daemon and the bare protocol before it, for what the client library never does.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/link.h"
#include "core/unique_fd.h"
#include "protocol/descriptor.h"
#include "protocol/terrace.capnp.h"
#include "tests/support/daemon_process.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace terrace::daemon {

class ProtocolFixture : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds patience{60};

  // KJ's destructors may throw; a test's may not.
  ~ProtocolFixture() noexcept override = default;

  struct Connection {
    kj::Own<kj::AsyncCapabilityStream> stream;
    capnp::TwoPartyClient rpc{*stream, 2};
    protocol::Daemon::Client daemon{rpc.bootstrap().castAs<protocol::Daemon>()};
    // Of connections that have logged in.
    protocol::Worker::Client worker = nullptr;
    protocol::Operator::Client operations = nullptr;
  };

  kj::AsyncIoContext io_ = kj::setupAsyncIo();
  test_support::TempDir directory_;
  std::unique_ptr<test_support::DaemonProcess> daemon_;
  std::uint16_t port_ = 0;

  void start_daemon(std::vector<std::string> settings = {}) {
    settings.insert(settings.begin(),
                    {"device.capacity=\"8MiB\"", "arena.slab=\"4MiB\"", "disk.enabled=false"});
    daemon_ = std::make_unique<test_support::DaemonProcess>(test_support::DaemonOptions{
        std::string(TERRACE_BIN_DIR) + "/terraced", directory_.path(), std::move(settings)});
    const Status status = daemon_->start();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // The same with HTTP, on port_.
  void start_with_http(std::vector<std::string> settings = {}) {
    settings.insert(settings.begin(), "http.listen=\"127.0.0.1:0\"");
    start_daemon(std::move(settings));
    ASSERT_TRUE(test_support::wait_until([&] {
      port_ = test_support::http_port_of_log(daemon_->log());
      return port_ != 0;
    })) << daemon_->log();
  }

  static auto login_request(Connection& connection) {
    auto request = connection.daemon.loginRequest();
    request.setProtocolVersion(protocol::PROTOCOL_VERSION);
    request.setClientName("test");
    return request;
  }

  std::unique_ptr<Connection> connect() {
    auto connection = connect_without_login();
    auto login = login_request(*connection).send();
    connection->worker = login.getWorker();
    connection->operations = login.getOperator();
    return connection;
  }

  std::unique_ptr<Connection> connect_without_login() {
    auto stream = client::connect_to_socket(io_, daemon_->socket_path());
    EXPECT_TRUE(stream.has_value()) << stream.error().message();
    return std::unique_ptr<Connection>(new Connection{kj::mv(*stream)});
  }

  // A socket without any protocol on it.
  UniqueFd connect_bare() {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, daemon_->socket_path().c_str());
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  // The answer to a call, or nothing if it failed.
  template <typename Promise>
  auto wait(Promise&& promise) {
    return promise.wait(io_.waitScope);
  }
  template <typename Promise>
  bool fails(Promise&& promise) {
    return kj::runCatchingExceptions([&] { promise.wait(io_.waitScope); }) != nullptr;
  }

  protocol::Session::Client open_session(Connection& connection) {
    return wait(connection.worker.openSessionRequest().send()).getSession();
  }

  // `number` makes it a space of its own.
  static auto space_request(protocol::Session::Client& session, std::uint8_t number = 0) {
    SpaceDescriptor descriptor;
    descriptor.model_digest.fill(number);
    descriptor.numerics_id = "test";
    descriptor.kv_dtype = "bf16";
    descriptor.layout_id = "cpu-tile32";
    descriptor.block_bytes = 64 << 10;
    auto request = session.openSpaceRequest();
    protocol::write_descriptor(descriptor, request.initDescriptor());
    return request;
  }

  protocol::Space::Client open_space(protocol::Session::Client& session) {
    return wait(space_request(session).send()).getSpace();
  }

  void reserve(protocol::Space::Client& space, std::uint64_t lease, std::uint32_t slots) {
    auto request = space.reserveRequest();
    request.setLease(lease);
    request.setUnnamed(slots);
    EXPECT_EQ(wait(request.send()).getSlots().size(), slots * sizeof(std::uint64_t));
  }

  nlohmann::json stats(Connection& connection) {
    auto answer = wait(connection.operations.statsRequest().send());
    return nlohmann::json::parse(std::string(answer.getJson().cStr()));
  }
};

}  // namespace terrace::daemon
