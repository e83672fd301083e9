// Which changes of the configuration a running daemon takes over.
#include "cache_daemon/reload.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace terrace::daemon {
namespace {

Options options(std::initializer_list<const char*> set) {
  std::vector<config::Override> overrides;
  for (const char* setting : set) overrides.push_back(*config::Override::set(setting));
  Options made;
  made.config = *config::load_daemon_config(std::nullopt, overrides, &made.settings);
  return made;
}

using Keys = std::vector<std::string>;

TEST(Reload, TakesOverWhatMayChange) {
  Options running = options({"tenants.research.device=4MiB", "tenants.research.disk=8MiB"});
  const Options wanted = options({"log.level=debug", "log.slow_ms=50", "drain_deadline_s=7",
                                  "tenants.research.device=1MiB", "spaces.model.max_age=\"7d\""});
  const Reload reload = take_over(running, wanted);
  EXPECT_EQ(reload.applied,
            (Keys{"drain_deadline_s", "log.level", "log.slow_ms", "spaces.model.max_age",
                  "tenants.research.device", "tenants.research.disk"}));
  EXPECT_EQ(reload.at_next_start, Keys());
  EXPECT_EQ(running.config.log.level, config::LogLevel::debug);
  EXPECT_EQ(running.config.log.slow.count(), 50);
  EXPECT_EQ(running.config.drain_deadline.count(), 7);
  EXPECT_EQ(running.config.spaces.at(0).max_age, std::chrono::hours(7 * 24));
  EXPECT_EQ(running.config.tenants[0].device_bytes, 1u << 20);
  EXPECT_EQ(running.config.tenants[0].disk_bytes, std::nullopt);
  EXPECT_EQ(take_over(running, wanted).applied, Keys());
}

TEST(Reload, TakesOverRulesButNotTheNamesThatTenantsShare) {
  Options running = options({"access.a.users=alice", "access.a.roles=worker", "access.b.users=bob",
                             "access.b.roles=worker"});
  const Options wanted = options({"access.a.users=carol", "access.a.roles=worker",
                                  "tenant_groups.lab.members=[\"x\"]", "socket_mode=\"0600\""});
  const Reload reload = take_over(running, wanted);
  for (const char* key : {"access.a.users", "access.b.users", "access.b.roles"})
    EXPECT_TRUE(std::ranges::count(reload.applied, key)) << key;
  EXPECT_EQ(reload.at_next_start, (Keys{"socket_mode", "tenant_groups.lab.members"}));
  ASSERT_EQ(running.config.access.rules.size(), 1u);
  EXPECT_EQ(running.config.access.rules[0].users, Keys{"carol"});
  EXPECT_TRUE(running.config.access.tenant_groups.empty());
  EXPECT_EQ(running.config.access.socket.mode, 0660u);
}

TEST(Reload, NamesTheRestEachTime) {
  Options running = options({"tenants.research.device=4MiB"});
  const Options wanted = options(
      {"device.capacity=2GiB", "tenants.other.device=1MiB", "tenants.research.device=4MiB"});
  for (int i = 0; i < 2; ++i) {
    const Reload reload = take_over(running, wanted);
    EXPECT_EQ(reload.applied, Keys());
    EXPECT_EQ(reload.at_next_start, (Keys{"device.capacity", "tenants.other.device",
                                          "tenants.other.disk", "tenants.other.host"}));
  }
  EXPECT_EQ(running.config.device.capacity_bytes, 1 * gib);
  EXPECT_EQ(running.config.tenants.size(), 1u);
}

}  // namespace
}  // namespace terrace::daemon
