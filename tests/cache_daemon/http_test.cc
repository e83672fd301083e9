// The daemon's HTTP, as a scraper, a probe, a browser and a hostile neighbour see it.
#include <netinet/in.h>
#include <sys/socket.h>

#include <random>

#include "cache_daemon/http/http_limits.h"
#include "tests/cache_daemon/exposition.h"
#include "tests/cache_daemon/protocol_fixture.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"

namespace terrace::daemon {
namespace {

using test_support::connect_to_port;
using test_support::http_get;
using test_support::http_request;
using test_support::read_to_end;
using test_support::send_all;

class HttpTest : public ProtocolFixture {
 protected:
  int status(const std::string& path) const { return http_get(port_, path).status; }
};

TEST_F(HttpTest, AnswersWhatItHasAndNothingElse) {
  start_with_http();
  EXPECT_EQ(http_get(port_, "/healthz").body, "ok\n");
  EXPECT_EQ(status("/readyz"), 200);
  EXPECT_EQ(status("/metrics?format=anything"), 200);
  EXPECT_EQ(status("/nothing"), 404);
  EXPECT_EQ(status("/../metrics"), 404);
  EXPECT_EQ(status("http://127.0.0.1/metrics"), 404);
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS"}) {
    const auto refused = http_request(port_, method, "/metrics");
    EXPECT_EQ(refused.status, 405) << method;
    EXPECT_EQ(refused.headers.at("allow"), "GET, HEAD");
  }
  const auto head = http_request(port_, "HEAD", "/healthz");
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "3");
  EXPECT_EQ(head.body, "");
}

TEST_F(HttpTest, EveryAnswerConfinesABrowser) {
  start_with_http();
  for (const char* path : {"/metrics", "/nothing"}) {
    const auto headers = http_get(port_, path).headers;
    EXPECT_NE(headers.at("content-security-policy").find("default-src 'none'"), std::string::npos);
    EXPECT_EQ(headers.at("content-security-policy").find("unsafe"), std::string::npos);
    EXPECT_EQ(headers.at("x-content-type-options"), "nosniff");
    EXPECT_EQ(headers.at("cache-control"), "no-store");
    EXPECT_FALSE(headers.contains("access-control-allow-origin"));
  }
}

TEST_F(HttpTest, ServesAnAddressAndNoNameThatLeadsHere) {
  start_with_http();
  const auto status_for = [&](const std::string& host) {
    return http_request(port_, "GET", "/metrics", {"Host: " + host}).status;
  };
  for (const char* host : {"127.0.0.1", "127.0.0.1:9470", "localhost", "localhost:1", "[::1]:9470"})
    EXPECT_EQ(status_for(host), 200) << host;
  for (const char* host : {"evil.example", "evil.example:9470", "localhost.evil.example", "",
                           "127.0.0.1.evil.example", "[::1", "::1", "127.0.0.1:80:90"})
    EXPECT_EQ(status_for(host), 403) << host;
}

TEST_F(HttpTest, MetricsAreTheStatsThatOperatorsSee) {
  start_with_http({"tenants.research.device=\"4MiB\""});
  const auto worker = connect();
  auto session = open_session(*worker);
  auto space = open_space(session);
  reserve(space, 1, 3);
  reserve(space, 2, 1);
  const auto answer = http_get(port_, "/metrics");
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  const Exposition metrics = read_exposition(answer.body);
  EXPECT_EQ(metrics.problems, std::vector<std::string>());
  const auto json = stats(*worker);
  EXPECT_EQ(json.at("leases"), 2);

  for (const char* name : {"connections", "sessions", "leases", "reserved_slots",
                           "quarantined_slots", "pending_blocks", "holes", "waiting_acquires",
                           "pins", "pinned_bytes", "pin_capacity_bytes", "spaces"})
    EXPECT_EQ(metrics.at(std::string("terrace_") + name), json.at(name).get<double>()) << name;
  for (const char* name : {"declined_loads", "declined_writes", "awaited_blocks", "expired_waits"})
    EXPECT_EQ(metrics.at(std::string("terrace_") + name + "_total"), json.at(name).get<double>())
        << name;
  for (const char* name :
       {"capacity_bytes", "used_bytes", "blocks", "hits_total", "misses_total", "promotions_total",
        "demotions_total", "evictions_total", "failures_total", "corruptions_total"}) {
    const std::string key = std::string(name).substr(0, std::string(name).find("_total"));
    EXPECT_EQ(metrics.at(std::string("terrace_tier_") + name + "{tier=\"device\"}"),
              json.at("tiers").at("device").at(key).get<double>())
        << name;
    EXPECT_FALSE(metrics.has(std::string("terrace_tier_") + name + "{tier=\"redis\"}"));
  }
  EXPECT_EQ(metrics.at("terrace_tenant_quota_bytes{tenant=\"research\",tier=\"device\"}"), 4 << 20);
  EXPECT_EQ(metrics.at("terrace_call_duration_seconds_count{call=\"reserve\"}"), 2);
  EXPECT_EQ(metrics.at("terrace_call_duration_seconds_count{call=\"match\"}"), 0);
  EXPECT_GT(metrics.at("terrace_call_duration_seconds_sum{call=\"reserve\"}"), 0);
  EXPECT_EQ(metrics.at("terrace_unanswered_calls_total{call=\"reserve\"}"), 0);

  auto refused = space.reserveRequest();
  refused.setDeviceIndex(7);
  EXPECT_TRUE(fails(refused.send()));
  const Exposition after = read_exposition(http_get(port_, "/metrics").body);
  EXPECT_EQ(after.at("terrace_unanswered_calls_total{call=\"reserve\"}"), 1);
}

TEST_F(HttpTest, MetricsPassPrometheusOwnLint) {
  start_with_http({"tenants.research.device=\"4MiB\"", "redis.endpoints=\"127.0.0.1:1\""});
  const auto checked = test_support::run_process(
      {"/usr/bin/env", "sh", "-c",
       "command -v promtool >/dev/null || exit 77; promtool check metrics"},
      {.input = http_get(port_, "/metrics").body});
  if (checked.status == 77) GTEST_SKIP() << "promtool (Debian's package prometheus) is not here";
  EXPECT_EQ(checked.status, 0) << checked.errors << checked.output;
  EXPECT_EQ(checked.output + checked.errors, "");
}

TEST_F(HttpTest, StatsAreTheOnesOfTheSocket) {
  start_with_http();
  const auto worker = connect();
  // The connection that found the daemon ready may still be there.
  ASSERT_TRUE(test_support::wait_until([&] { return stats(*worker)["connections"] == 1; }));
  auto theirs = nlohmann::json::parse(http_get(port_, "/api/stats").body);
  auto own = stats(*worker);
  for (auto* json : {&theirs, &own}) json->erase("uptime_s");
  EXPECT_EQ(theirs, own);
}

TEST_F(HttpTest, IsOffWhereNobodyWantsIt) {
  start_daemon({"http.listen=\"off\""});
  EXPECT_EQ(daemon_->log().find("http:"), std::string::npos) << daemon_->log();
}

TEST_F(HttpTest, APortInUseDelaysItAndNothingElse) {
  UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  ASSERT_EQ(::getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::uint16_t port = ntohs(address.sin_port);
  start_daemon({"http.listen=\"127.0.0.1:" + std::to_string(port) + "\""});
  const auto worker = connect();
  open_session(*worker);
  EXPECT_NE(
      daemon_->log().find("http: http://127.0.0.1:" + std::to_string(port) + "/ cannot be had"),
      std::string::npos)
      << daemon_->log();
  other.reset();
  EXPECT_TRUE(test_support::wait_until([&] { return http_get(port, "/readyz").status == 200; }));
}

class HostileHttpTest : public HttpTest {
 protected:
  void SetUp() override { start_with_http(); }
  // Whoever else is there notices nothing.
  void TearDown() override {
    EXPECT_EQ(status("/readyz"), 200) << daemon_->log();
    const auto worker = connect();
    open_session(*worker);
  }
};

TEST_F(HostileHttpTest, NonsenseEndsItsConnection) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    std::string noise(300, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    const auto fd = connect_to_port(port_);
    send_all(fd, noise + "\r\n\r\n");
    const std::string answer = read_to_end(fd);
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 400 ") ||
                answer.starts_with("HTTP/1.1 501 "))
        << answer;
  }
}

TEST_F(HostileHttpTest, HeadersWithoutEnd) {
  const auto fd = connect_to_port(port_);
  ASSERT_TRUE(send_all(fd, "GET / HTTP/1.1\r\nHost: localhost\r\n"));
  const std::string line = "X-More: " + std::string(1000, 'x') + "\r\n";
  std::size_t sent = 0;
  while (sent < 64'000 && send_all(fd, line)) ++sent;
  EXPECT_LT(sent, 64'000u);
}

TEST_F(HostileHttpTest, ABodyWithoutEnd) {
  const auto fd = connect_to_port(port_);
  ASSERT_TRUE(send_all(fd,
                       "GET /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                       "1000000000000\r\n\r\n"));
  const std::string piece(1 << 16, 'x');
  std::size_t sent = 0;
  while (sent < 16'000 && send_all(fd, piece)) ++sent;
  EXPECT_LT(sent, 16'000u);
}

TEST_F(HostileHttpTest, ManyConnectionsAtOnceAreFewThatStay) {
  std::vector<UniqueFd> open;
  for (int i = 0; i < 100; ++i) open.push_back(connect_to_port(port_));
  std::size_t answered = 0;
  for (const UniqueFd& fd : open) {
    char first = 0;
    if (send_all(fd, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))
      answered += ::recv(fd.get(), &first, 1, 0) == 1;
  }
  EXPECT_GE(answered, 1u);
  EXPECT_LE(answered, max_http_connections);
  open.clear();
  EXPECT_TRUE(test_support::wait_until([&] { return status("/healthz") == 200; }));
}

}  // namespace
}  // namespace terrace::daemon
