// Who may connect and how, and whose blocks may take what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/daemon_configs.h"

namespace terrace::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(AccessConfig, TenantsAreNamedByPeople) {
  const ConfigFile file(R"(
[tenants.research]
device = "1MiB"
[tenants."*"]
disk = "auto"
[tenants."a.b"]
host = 5
)");
  const auto config = load(file);
  ASSERT_TRUE(config) << config.error().to_string();
  ASSERT_EQ(config->tenants.size(), 3u);
  for (const TenantOptions& tenant : config->tenants) {
    if (tenant.name == "research") {
      EXPECT_EQ(tenant.device_bytes, 1 * mib);
      EXPECT_EQ(tenant.disk_bytes, std::nullopt);
    } else if (tenant.name == "*") {
      EXPECT_EQ(tenant.disk_bytes, std::nullopt);
    } else {
      EXPECT_EQ(tenant.name, "a.b");
      EXPECT_EQ(tenant.host_bytes, 5u);
    }
  }
  EXPECT_EQ(load_with({"tenants.x.disk=1GiB"})->tenants[0].disk_bytes, 1 * gib);
  EXPECT_THAT(
      message_for("[tenants.x]\ndisc = 1\n"),
      HasSubstr("test.toml:2: tenants.x.disc: unknown key, expected perhaps tenants.x.disk"));
  EXPECT_THAT(message_for("[tenants]\ndisk = 1\n"), HasSubstr("tenants"));
}

TEST(AccessConfig, RulesOfAccessSayForWhomTheyAre) {
  const auto config =
      load_with({"access.a.users=[\"alice\",\"1001\"]", "access.a.roles=[\"worker\",\"read_only\"]",
                 "access.a.sockets=\"research\"", "access.a.tenant=research",
                 "sockets.research.path=/tmp/r.sock", "sockets.research.mode=\"0600\"",
                 "tenant_groups.lab.members=[\"research\",\"teaching\"]"});
  ASSERT_TRUE(config) << config.error().to_string();
  const AccessRule& rule = config->access.rules.at(0);
  EXPECT_EQ(rule.users, (std::vector<std::string>{"alice", "1001"}));
  EXPECT_TRUE(rule.worker && rule.read_only && !rule.operate);
  EXPECT_EQ(rule.tenant, "research");
  EXPECT_EQ(config->access.more_sockets.at(0).permissions.mode, 0600u);
  EXPECT_EQ(config->access.socket.mode, 0660u);
  EXPECT_EQ(config->access.tenant_groups.at(0).members.size(), 2u);

  EXPECT_THAT(message_with({"access.a.roles=worker"}), HasSubstr("found nobody that it is for"));
  EXPECT_THAT(message_with({"access.a.users=1", "access.a.roles=boss"}),
              AllOf(HasSubstr("access.a.users"), HasSubstr("found the role 'boss'")));
  EXPECT_THAT(message_with({"access.a.users=alice"}), HasSubstr("found no role"));
  EXPECT_THAT(message_with({"access.a.sockets=other", "access.a.roles=worker"}),
              HasSubstr("name of a section of [sockets]"));
  EXPECT_THAT(message_with({"socket_mode=\"0888\""}), HasSubstr("expected octal digits"));
  EXPECT_THAT(message_with({"tenant_groups.a.members=x", "tenant_groups.b.members=x"}),
              HasSubstr("in more than one group"));
  EXPECT_THAT(message_with({"tenant_groups.a.members=x", "tenant_groups.x.members=y"}),
              HasSubstr("among the members"));
}

TEST(AccessConfig, TcpIsOffAndNotPlainWhereOthersConnect) {
  EXPECT_FALSE(load_with({})->tcp.listen);
  EXPECT_THAT(message_with({"tcp.listen=0.0.0.0:9471"}), HasSubstr("tcp.certificate_file"));
  EXPECT_THAT(message_with({"tcp.listen=0.0.0.0:9471", "tcp.plain=true"}),
              HasSubstr("expected false where other machines may connect"));
  const auto plain = load_with({"tcp.listen=127.0.0.1:9471", "tcp.plain=true"});
  ASSERT_TRUE(plain) << plain.error().to_string();
  EXPECT_EQ(plain->tcp.listen->port, 9471);
}

TEST(AccessConfig, NobodyIsAskedForACertificateWithoutAnAuthority) {
  const auto with = [](std::initializer_list<const char*> more) {
    std::vector<Override> overrides = {*Override::set("access.a.certificates=[\"worker\"]"),
                                       *Override::set("access.a.roles=worker")};
    for (const char* setting : more) overrides.push_back(*Override::set(setting));
    const auto config = load_daemon_config(std::nullopt, overrides);
    return config ? "no error" : config.error().message();
  };
  const auto refused = AllOf(HasSubstr("access.a.certificates"), HasSubstr("tcp.client_ca_file"));
  EXPECT_THAT(with({}), refused);
  EXPECT_THAT(with({"tcp.client_ca_file=ca.crt"}), refused);
  EXPECT_THAT(with({"tcp.listen=127.0.0.1:1", "tcp.plain=true", "tcp.client_ca_file=ca.crt"}),
              refused);
  const auto tls = {"tcp.listen=127.0.0.1:1", "tcp.certificate_file=a", "tcp.key_file=b"};
  EXPECT_THAT(with(tls), refused);
  EXPECT_EQ(with({"tcp.listen=127.0.0.1:1", "tcp.certificate_file=a", "tcp.key_file=b",
                  "tcp.client_ca_file=ca.crt"}),
            "no error");
}

TEST(AccessConfig, HttpIsForThisMachineUnlessItIsSaidOtherwise) {
  EXPECT_FALSE(load_with({"http.listen=off"})->http.listen);
  EXPECT_FALSE(load_with({"http.listen=\"\""})->http.listen);
  EXPECT_EQ(load_with({"http.listen=\"[::1]:80\""})->http.listen->port, 80);
  EXPECT_THAT(message_with({"http.listen=\"0.0.0.0:80\""}),
              HasSubstr("which other machines may reach"));
  EXPECT_EQ(load_with({"http.listen=\"0.0.0.0:80\"", "http.allow_remote=true"})->http.listen->host,
            "0.0.0.0");
  EXPECT_THAT(message_with({"http.listen=9470"}), HasSubstr("http.listen"));
  EXPECT_THAT(message_with({"http.listen=example.com:80"}), HasSubstr("an address and a port"));
}

}  // namespace
}  // namespace terrace::config
