// Which changes of the configuration a running daemon takes over.
#include "cache_daemon/reload.h"

#include <gtest/gtest.h>

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
