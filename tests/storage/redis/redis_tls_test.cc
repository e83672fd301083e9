// A RedisStore over TLS. Certificates are made by the openssl program.
#include <fstream>

#include "tests/storage/redis/remote_harness.h"
#include "tests/support/process.h"

namespace terrace::storage {
namespace {

using test_support::RedisServer;
using test_support::run_process;

class RedisTls : public ::testing::Test {
 protected:
  RedisTls() {
    openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
             "-days", "2", "-subj", "/CN=authority", "-keyout", file("ca.key"), "-out",
             file("ca.crt")});
    std::ofstream(file("names")) << "subjectAltName=IP:127.0.0.1,DNS:localhost\n";
    for (const std::string name : {"server", "client"}) {
      openssl({"req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-subj", "/CN=" + name, "-keyout", file(name + ".key"), "-out",
               file(name + ".csr")});
      openssl({"x509", "-req", "-in", file(name + ".csr"), "-CA", file("ca.crt"), "-CAkey",
               file("ca.key"), "-CAcreateserial", "-days", "2", "-extfile", file("names"), "-out",
               file(name + ".crt")});
    }
    tls_port_ = test_support::free_port();
    server_ = std::make_unique<RedisServer>(std::vector<std::string>{
        "--tls-port", std::to_string(tls_port_), "--tls-ca-cert-file", file("ca.crt"),
        "--tls-cert-file", file("server.crt"), "--tls-key-file", file("server.key"),
        "--tls-auth-clients", "yes"});
    options_ = options_for(tls_port_);
    options_.tls.enabled = true;
    options_.tls.ca_file = file("ca.crt");
    options_.tls.certificate_file = file("client.crt");
    options_.tls.key_file = file("client.key");
  }

  std::string file(const std::string& name) const { return directory_.file(name); }
  static void openssl(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "/usr/bin/openssl");
    const auto result = run_process(arguments);
    ASSERT_EQ(result.status, 0) << result.errors;
  }
  void expect_refused(const std::string& reason) {
    RemoteHarness harness(options_);
    const TestBlock block = test_block(test_space(64), 1, 64);
    EXPECT_EQ(harness.write(block).status.code(), StatusCode::unavailable);
    const std::string why = harness.store().usage().last_failure;
    EXPECT_NE(why.find(reason), std::string::npos) << why;
  }

  test_support::TempDir directory_;
  std::uint16_t tls_port_ = 0;
  std::unique_ptr<RedisServer> server_;
  RedisOptions options_;
};

TEST_F(RedisTls, CarriesValuesOfAnySizeBothWays) {
  RemoteHarness harness(options_);
  const auto blocks = chain(6, 3 * mib + 192);
  std::vector<Ticket> tickets;
  for (const TestBlock& block : blocks) tickets.push_back(harness.start_write(block));
  for (const Ticket ticket : tickets) EXPECT_EQ(harness.wait(ticket).status.to_string(), "ok");
  EXPECT_EQ(harness.lookup(blocks).present, 6u);
  std::vector<AlignedBuffer> destinations(blocks.size());
  tickets.clear();
  for (std::size_t i = 0; i < blocks.size(); ++i)
    tickets.push_back(harness.start_read(blocks[i], destinations[i]));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(harness.wait(tickets[i]).status.to_string(), "ok");
    EXPECT_EQ(std::memcmp(destinations[i].data(), blocks[i].payload().data(), blocks[i].bytes), 0);
  }
  EXPECT_EQ(server_->command({"DBSIZE"}).text, "6");
}

TEST_F(RedisTls, AServerThatTheAuthorityDoesNotKnowIsRefused) {
  openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
           "-days", "2", "-subj", "/CN=another", "-keyout", file("other.key"), "-out",
           file("other.crt")});
  options_.tls.ca_file = file("other.crt");
  expect_refused("TLS: ");
  options_.tls.verify = false;
  RemoteHarness careless(options_);
  EXPECT_EQ(careless.write(test_block(test_space(64), 1, 64)).status.to_string(), "ok");
}

TEST_F(RedisTls, AServerOfAnotherNameIsRefused) {
  options_.tls.server_name = "redis.example";
  expect_refused("mismatch");
  options_.tls.server_name = "localhost";
  RemoteHarness harness(options_);
  EXPECT_EQ(harness.write(test_block(test_space(64), 1, 64)).status.to_string(), "ok");
}

TEST_F(RedisTls, AClientWithoutItsCertificateIsRefusedByTheServer) {
  options_.tls.certificate_file = options_.tls.key_file = "";
  expect_refused("TLS: ");
}

TEST_F(RedisTls, PlainAndTlsDoNotMix) {
  options_.endpoints[0].port = server_->port();
  options_.connect_timeout_ms = 200;
  expect_refused("");
}

TEST_F(RedisTls, FilesThatAreNotThereAreSaidAtOnce) {
  for (std::string RedisTlsOptions::*field :
       {&RedisTlsOptions::ca_file, &RedisTlsOptions::certificate_file,
        &RedisTlsOptions::key_file}) {
    RedisOptions options = options_;
    options.tls.*field = file("missing");
    const auto store = RedisStore::open(options);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code(), StatusCode::io_error);
    EXPECT_NE(store.error().message().find("missing"), std::string::npos)
        << store.error().message();
  }
}

}  // namespace
}  // namespace terrace::storage
