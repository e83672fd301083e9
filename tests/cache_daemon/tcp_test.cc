// Clients that come over TCP: with TLS and a token, with a certificate, and never with memory.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include "client/client.h"
#include "client/operator.h"
#include "client/transport.h"
#include "tests/cache_daemon/protocol_fixture.h"
#include "tests/support/process.h"

namespace terrace::daemon {
namespace {

using client::Identity;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* token = "a token for the tests of TCP";

class TcpTest : public ProtocolFixture {
 protected:
  // An authority with a server and two clients, by the openssl program.
  static void SetUpTestSuite() {
    files_ = new test_support::TempDir();
    const std::vector<std::string> key = {"-newkey", "ec", "-pkeyopt",
                                          "ec_paramgen_curve:prime256v1", "-nodes"};
    openssl({"req", "-x509", "-days", "2", "-subj", "/CN=authority", "-keyout", file("ca.key"),
             "-out", file("ca.crt")},
            key);
    std::ofstream(file("names")) << "subjectAltName=DNS:localhost\n";
    for (const std::string name : {"server", "known", "unknown"}) {
      openssl({"req", "-new", "-subj", "/CN=" + name, "-keyout", file(name + ".key"), "-out",
               file(name + ".csr")},
              key);
      openssl({"x509", "-req", "-in", file(name + ".csr"), "-CA", file("ca.crt"), "-CAkey",
               file("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", file("names"), "-out",
               file(name + ".crt")},
              {});
      ::chmod(file(name + ".key").c_str(), 0600);
    }
    std::ofstream(file("token")) << token << "\n";
    ::chmod(file("token").c_str(), 0600);
  }
  static void TearDownTestSuite() { delete std::exchange(files_, nullptr); }

  static std::string file(const std::string& name) { return files_->file(name); }
  static void openssl(std::vector<std::string> arguments, const std::vector<std::string>& more) {
    arguments.insert(arguments.begin(), "/usr/bin/openssl");
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto result = test_support::run_process(arguments);
    ASSERT_EQ(result.status, 0) << result.errors;
  }

  void start_with_tcp(std::vector<std::string> settings) {
    settings.push_back("tcp.listen=\"127.0.0.1:0\"");
    start_daemon(std::move(settings));
    ASSERT_TRUE(test_support::wait_until([&] {
      const std::string log = daemon_->log();
      std::smatch found;
      if (!std::regex_search(log, found, std::regex("on 127.0.0.1 port (\\d+)"))) return false;
      tcp_port_ = found[1].str();
      return true;
    })) << daemon_->log();
  }
  void start_with_tls(std::vector<std::string> settings) {
    settings.push_back("tcp.certificate_file=\"" + file("server.crt") + "\"");
    settings.push_back("tcp.key_file=\"" + file("server.key") + "\"");
    start_with_tcp(std::move(settings));
  }
  static std::vector<std::string> rule_of_token(const std::string& roles) {
    return {"access.remote.token_file=\"" + file("token") + "\"", "access.remote.roles=" + roles};
  }
  std::string tls_address() const { return "tls://localhost:" + tcp_port_; }

  // What `terrace stats` does: on a thread of its own, since a thread has one event loop.
  Result<std::string> fetch_stats(const std::string& address, const Identity& identity) {
    Result<std::string> text = error(StatusCode::internal, "not asked");
    std::thread([&] {
      text = client::fetch_stats_json(address, client::Deadline::clock::now() + patience, identity);
    }).join();
    return text;
  }
  std::string why_not(const Identity& identity) {
    const auto text = fetch_stats(tls_address(), identity);
    return text ? "it was answered" : text.error().message();
  }

  struct Remote {
    kj::Own<client::Transport> transport;
    protocol::Daemon::Client daemon{transport->rpc().bootstrap().castAs<protocol::Daemon>()};
  };
  std::unique_ptr<Remote> connect_remote(const Identity& identity) {
    return std::unique_ptr<Remote>(
        new Remote{client::open_transport(io_, tls_address(), identity).wait(io_.waitScope)});
  }

  std::string tcp_port_;

 private:
  static inline test_support::TempDir* files_ = nullptr;
};

TEST_F(TcpTest, OverTlsATokenGivesTheRolesOfItsRule) {
  start_with_tls(rule_of_token("[\"operator\"]"));
  Identity identity{.token_file = file("token"), .ca_file = file("ca.crt")};
  const auto text = fetch_stats(tls_address(), identity);
  ASSERT_TRUE(text.has_value()) << text.error().message();
  EXPECT_EQ(nlohmann::json::parse(*text).at("connections"), 1);

  // Being root on the same host is nothing here.
  EXPECT_THAT(why_not({.ca_file = file("ca.crt")}), HasSubstr("no rule of [access]"));
  // Neither side trusts what the other does not prove.
  EXPECT_THAT(why_not({.token_file = file("token")}), HasSubstr("TLS"));
  identity.server_name = "elsewhere.example";
  EXPECT_THAT(why_not(identity), HasSubstr("TLS"));
  EXPECT_FALSE(fetch_stats("tcp://127.0.0.1:" + tcp_port_, identity).has_value());
  EXPECT_THAT(daemon_->log(), Not(HasSubstr(token)));
  // With the options and the environment of the command line.
  const auto shown = test_support::run_process(
      {std::string(TERRACE_BIN_DIR) + "/terrace", "--connect", tls_address(), "stats", "--json"},
      {.environment = {{"TERRACE_TOKEN_FILE", file("token")},
                       {"TERRACE_CA_FILE", file("ca.crt")}}});
  EXPECT_EQ(shown.status, 0) << shown.errors;
}

TEST_F(TcpTest, WithAnAuthorityEachClientShowsACertificateThatARuleNames) {
  start_with_tls({"tcp.client_ca_file=\"" + file("ca.crt") + "\"",
                  "access.known.certificates=[\"known\"]", "access.known.roles=\"read_only\""});
  const auto showing = [](const std::string& name) {
    return Identity{.ca_file = file("ca.crt"),
                    .certificate_file = file(name + ".crt"),
                    .key_file = file(name + ".key")};
  };
  EXPECT_TRUE(fetch_stats(tls_address(), showing("known")).has_value());
  EXPECT_THAT(why_not(showing("unknown")), HasSubstr("certificate 'unknown'"));
  EXPECT_FALSE(fetch_stats(tls_address(), {.ca_file = file("ca.crt")}).has_value());
}

TEST_F(TcpTest, ASessionHasNoMemoryAndEndsWithItsConnection) {
  start_with_tls(rule_of_token("[\"worker\"]"));
  const auto local = connect();
  const Identity identity{.token_file = file("token"), .ca_file = file("ca.crt")};
  auto remote = connect_remote(identity);
  auto request = client::login_request(remote->daemon, identity, "remote");
  ASSERT_TRUE(request.has_value());
  {
    auto session = wait(request->send().getWorker().openSessionRequest().send()).getSession();
    EXPECT_EQ(stats(*local).at("sessions"), 1);
    EXPECT_TRUE(fails(session.deviceArenaRequest().send()));
    EXPECT_TRUE(fails(session.hostArenaRequest().send()));
    auto space = open_space(session);
    auto match = space.matchRequest();
    match.initKeys(32);
    EXPECT_FALSE(fails(match.send()));
    // Bytes that it cannot have written must not be sealed.
    auto reserve = space.reserveRequest();
    reserve.setUnnamed(1);
    EXPECT_TRUE(fails(reserve.send()));
    EXPECT_TRUE(fails(space.acquireRequest().send()));
    EXPECT_TRUE(fails(space.sealRequest().send()));
  }
  remote.reset();
  EXPECT_TRUE(test_support::wait_until([&] { return stats(*local).at("sessions") == 0; }));
  EXPECT_EQ(stats(*local).at("connections"), 1);
}

// What an engine on another host does: both sides show certificates, and payload goes in messages.
TEST_F(TcpTest, OverMutualTlsBlocksAreSentAndFetched) {
  start_with_tls({"tcp.client_ca_file=\"" + file("ca.crt") + "\"",
                  "access.known.certificates=[\"known\"]", "access.known.roles=\"worker\""});
  const auto engine = [&](const std::string& certificate, client::PayloadPath payload) {
    client::ClientOptions options;
    options.socket_path = tls_address();
    options.identity = {.ca_file = file("ca.crt"),
                        .certificate_file = file(certificate + ".crt"),
                        .key_file = file(certificate + ".key")};
    options.payload = payload;
    options.staging_bytes = 256 << 10;  // four blocks
    return client::Client::start(std::move(options));
  };
  const auto soon = client::Deadline::clock::now() + patience;
  SpaceDescriptor descriptor;
  descriptor.numerics_id = descriptor.kv_dtype = descriptor.layout_id = "test";
  descriptor.block_tokens = 32;
  descriptor.block_bytes = 64 << 10;
  constexpr std::size_t count = 10;
  std::vector<Token> tokens(count * descriptor.block_tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<Token>(i);
  std::vector<std::vector<std::byte>> computed(count), back(count);
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (std::size_t i = 0; i < count; ++i) {
    computed[i].assign(descriptor.block_bytes, static_cast<std::byte>(i + 1));
    back[i].resize(descriptor.block_bytes);
    from.push_back(computed[i].data());
    to.push_back(back[i].data());
  }
  {
    const auto client = engine("known", client::PayloadPath::stream);
    ASSERT_TRUE(client->wait_connected(soon).ok());
    const auto space = client->open_space(descriptor);
    const auto outcomes = space->put(space->digest(), tokens, from, soon);
    ASSERT_TRUE(outcomes.has_value()) << outcomes.error().message();
    EXPECT_EQ(*outcomes, std::vector(count, PutOutcome::stored));
    const auto keys = derive_block_keys(space->digest(), tokens, descriptor.block_tokens);
    const auto tiers = space->get(keys, to, {}, soon);
    ASSERT_TRUE(tiers.has_value()) << tiers.error().message();
    EXPECT_EQ(*tiers, std::vector(count, Tier::device));
    EXPECT_TRUE(back == computed);
  }
  // Whose certificate no rule names gets nothing.
  EXPECT_FALSE(engine("unknown", client::PayloadPath::stream)->wait_first_attempt(soon).ok());
  const auto local = connect();
  EXPECT_TRUE(test_support::wait_until([&] { return stats(*local).at("sessions") == 0; }));
  EXPECT_EQ(stats(*local).at("leases"), 0);
}

TEST_F(TcpTest, WithoutTlsOnLoopbackIfItIsSaid) {
  auto settings = rule_of_token("[\"read_only\"]");
  settings.push_back("tcp.plain=true");
  start_with_tcp(settings);
  EXPECT_TRUE(
      fetch_stats("tcp://127.0.0.1:" + tcp_port_, {.token_file = file("token")}).has_value());
}

TEST_F(TcpTest, CertificatesAreReadAgain) {
  // Of nobody's authority at first.
  const std::string certificate = directory_.file("own.crt"), key = directory_.file("own.key");
  openssl({"req", "-x509", "-days", "2", "-subj", "/CN=localhost", "-newkey", "ec", "-pkeyopt",
           "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate},
          {});
  auto settings = rule_of_token("[\"operator\"]");
  settings.push_back("tcp.certificate_file=\"" + certificate + "\"");
  settings.push_back("tcp.key_file=\"" + key + "\"");
  start_with_tcp(settings);
  const Identity identity{.token_file = file("token"), .ca_file = file("ca.crt")};
  EXPECT_THAT(why_not(identity), HasSubstr("TLS"));
  const auto reload = [&](const std::string& line) {
    daemon_->signal(SIGHUP);
    return test_support::wait_until([&] { return daemon_->log().find(line) != std::string::npos; },
                                    patience);
  };
  using std::filesystem::copy_options;
  std::filesystem::copy_file(file("server.crt"), certificate, copy_options::overwrite_existing);
  std::filesystem::copy_file(file("server.key"), key, copy_options::overwrite_existing);
  EXPECT_TRUE(reload("TLS: read certificates and key again")) << daemon_->log();
  EXPECT_TRUE(fetch_stats(tls_address(), identity).has_value());
  std::ofstream(certificate) << "nonsense";
  EXPECT_TRUE(reload("TLS stays as it is")) << daemon_->log();
  EXPECT_TRUE(fetch_stats(tls_address(), identity).has_value());
}

TEST_F(TcpTest, StrangersAreAQuarterOfTheConnectionsAndNoMore) {
  auto settings = rule_of_token("[\"read_only\"]");
  settings.insert(settings.end(), {"tcp.plain=true", "limits.max_connections=4"});
  start_with_tcp(settings);
  const auto local = connect();
  auto address = io_.provider->getNetwork()
                     .parseAddress(("127.0.0.1:" + tcp_port_).c_str())
                     .wait(io_.waitScope);
  auto first = address->connect().wait(io_.waitScope);
  ASSERT_TRUE(test_support::wait_until([&] { return stats(*local).at("connections") == 2; }));
  auto second = address->connect().wait(io_.waitScope);
  char byte = 0;
  const auto refused = kj::runCatchingExceptions(
      [&] { EXPECT_EQ(second->tryRead(&byte, 1, 1).wait(io_.waitScope), 0u); });
  EXPECT_EQ(stats(*local).at("connections"), 2);
}

TEST_F(TcpTest, WhoSaysNothingOrNonsenseIsCutAndOthersAreServed) {
  auto settings = rule_of_token("[\"operator\"]");
  settings.push_back("limits.login_deadline_ms=300");
  start_with_tls(settings);
  auto silent = io_.provider->getNetwork()
                    .parseAddress(("127.0.0.1:" + tcp_port_).c_str())
                    .wait(io_.waitScope);
  auto nothing = silent->connect().wait(io_.waitScope);
  auto nonsense = silent->connect().wait(io_.waitScope);
  const std::string noise(3000, '\x16');
  nonsense->write(noise.data(), noise.size()).wait(io_.waitScope);
  char byte = 0;
  for (auto* const stream : {nonsense.get(), nothing.get()})
    while (kj::runCatchingExceptions([&] {
             if (stream->tryRead(&byte, 1, 1).wait(io_.waitScope) == 0)
               kj::throwFatalException(KJ_EXCEPTION(DISCONNECTED, "the end"));
           }) == nullptr) {
    }
  EXPECT_TRUE(fetch_stats(tls_address(), {.token_file = file("token"), .ca_file = file("ca.crt")})
                  .has_value());
}

}  // namespace
}  // namespace terrace::daemon
