// What `terrace config show` prints, and where options come from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "tests/config/daemon_configs.h"

namespace terrace::config {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::pair<std::string, std::string>> values(const std::vector<Setting>& settings) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Setting& setting : settings)
    if (!setting.secret) values.emplace_back(setting.key, setting.value);
  return values;
}

TEST(ShownConfig, OverridesWinOverTheFileAndLaterOnesWin) {
  const ConfigFile file("[device]\ncapacity = \"64MiB\"\nverify = \"never\"\n");
  const std::vector<Override> overrides = {*Override::set("device.capacity=128MiB"),
                                           *Override::set("device.capacity=256MiB"),
                                           Override::flag("--data-dir", "data_dir", "123")};
  const auto config = load_daemon_config(file.path(), overrides);
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->device.capacity_bytes, 256 * mib);
  EXPECT_EQ(config->device.verify, DeviceVerify::never);
  EXPECT_EQ(config->data_dir, "123");
}

TEST(ShownConfig, OverrideValuesAreTomlOrBareWords) {
  EXPECT_EQ(load_with({"disk.enabled=false"})->disk.enabled, false);
  EXPECT_EQ(load_with({"request_budget_ms=7"})->request_budget.count(), 7);
  EXPECT_EQ(load_with({"device.verify=always"})->device.verify, DeviceVerify::always);
  EXPECT_EQ(load_with({"device.verify=\"always\""})->device.verify, DeviceVerify::always);
  EXPECT_EQ(load_with({"socket=/tmp/with=equals"})->socket_path, "/tmp/with=equals");
  EXPECT_EQ(load_with({"device={verify='always'}"})->device.verify, DeviceVerify::always);
}

TEST(ShownConfig, IsShownAsAFileThatSetsTheSame) {
  const ConfigFile file(
      "data_dir = '/tmp/with \"quotes\" and \\'\n"
      "[disk]\ndata_dirs = ['/mnt/a', '/mnt/b']\ncapacity = 12345678\ncodec = 'raw'\n"
      "[arena]\nclean_high = 1\n"
      "[tenants.research]\ndisk = '2GiB'\n[tenants.\"with.dots and blanks\"]\nhost = 4096\n"
      "[redis]\nendpoints = ['127.0.0.1:6379']\npassword = 'hunter2'\n[redis.tls]\nverify = "
      "false\n");
  const std::vector<Override> overrides = {*Override::set("host.capacity=128MiB")};
  std::vector<Setting> settings;
  const auto config = load_daemon_config(file.path(), overrides, &settings);
  ASSERT_TRUE(config) << config.error().to_string();
  const std::string shown = to_toml(settings);
  EXPECT_THAT(shown, Not(HasSubstr("hunter2")));
  EXPECT_THAT(shown, HasSubstr("\n# password is set\n"));
  EXPECT_THAT(shown, HasSubstr("\ncapacity = \"128MiB\"  # --set host.capacity\n"));
  EXPECT_THAT(shown, HasSubstr("\ncapacity = 12345678  # " + file.path().string() + ":4\n"));
  EXPECT_THAT(shown, HasSubstr("\nslab = \"64MiB\"\n"));

  const ConfigFile again(shown);
  std::vector<Setting> shown_settings;
  const auto reloaded = load_daemon_config(again.path(), {}, &shown_settings);
  ASSERT_TRUE(reloaded) << reloaded.error().to_string() << "\n" << shown;
  EXPECT_EQ(values(shown_settings), values(settings));
  EXPECT_EQ(reloaded->data_dir, "/tmp/with \"quotes\" and \\");
  EXPECT_EQ(reloaded->disk.data_dirs, config->disk.data_dirs);
  EXPECT_EQ(reloaded->disk.capacity_bytes, 12345678u);
  EXPECT_EQ(reloaded->arena.clean_high, 1);
  ASSERT_EQ(reloaded->tenants.size(), 2u);
}

TEST(ShownConfig, ShowsEveryOptionOfTheExample) {
  std::vector<Setting> settings;
  ASSERT_TRUE(load_daemon_config(std::nullopt, {}, &settings));
  std::vector<std::string> names;
  for (const Setting& setting : settings) {
    names.push_back(setting.key.substr(setting.key.rfind('.') + 1));
    EXPECT_EQ(setting.where, "") << setting.key;
  }
  std::ifstream example(std::filesystem::path(TERRACE_CONFIG_DIR) / "terraced.toml");
  std::size_t keys = 0;
  for (std::string line; std::getline(example, line);) {
    std::smatch key;
    if (!std::regex_search(line, key, std::regex("^(?:# )?(\\w+) = "))) continue;
    ++keys;
    EXPECT_THAT(names, ::testing::Contains(key[1].str()));
  }
  EXPECT_GE(keys, 30u);
}

TEST(ShownConfig, OverrideProblemsNameTheFlag) {
  EXPECT_EQ(message_with({"disk.enabled=maybe"}),
            "--set disk.enabled: found the text 'maybe', expected true or false");
  EXPECT_EQ(message_with({"disc.enabled=true"}),
            "--set disc.enabled: unknown key, expected perhaps disk.enabled");
  EXPECT_EQ(message_with({"device={verfy='always'}"}),
            "--set device: device.verfy: unknown key, expected perhaps device.verify");
  EXPECT_THAT(message_with({"log.level=\"info"}), StartsWith("--set log.level: does not parse: "));
  for (const char* malformed : {"", "disk.enabled", "=1", ".a=1", "a..b=1", "a b=1"})
    EXPECT_THAT(message_with({malformed}),
                AllOf(StartsWith("--set: found '"), HasSubstr("expected key=value")))
        << malformed;
  // A second key cannot be smuggled in behind a line break.
  EXPECT_THAT(message_with({"request_budget_ms=1\ndisk.enabled=false"}),
              StartsWith("--set request_budget_ms: found the text"));
}

}  // namespace
}  // namespace terrace::config
