#include "config/daemon_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <regex>
#include <sstream>
#include <vector>

#include "core/default_paths.h"
#include "tests/config/daemon_configs.h"

namespace terrace::config {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DaemonConfig, DefaultsNeedNoFile) {
  const auto config = load_daemon_config(std::nullopt, {});
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->socket_path, default_socket_path());
  EXPECT_EQ(config->data_dir, default_data_dir());
  EXPECT_EQ(config->request_budget.count(), 200);
  EXPECT_EQ(config->device.capacity_bytes, 1 * gib);
  EXPECT_EQ(config->host.capacity_bytes, std::nullopt);
  EXPECT_EQ(config->disk.capacity_bytes, 8 * gib);
}

// The example is what people copy: it must load, and say what happens without it.
TEST(DaemonConfig, ExampleEqualsTheDefaults) {
  const auto example =
      load_daemon_config(std::filesystem::path(TERRACE_CONFIG_DIR) / "terraced.toml", {});
  ASSERT_TRUE(example) << example.error().to_string();
  const DaemonConfig defaults = *load_daemon_config(std::nullopt, {});
  EXPECT_EQ(example->socket_path, defaults.socket_path);
  EXPECT_EQ(example->data_dir, defaults.data_dir);
  EXPECT_EQ(example->request_budget, defaults.request_budget);
  EXPECT_EQ(example->drain_deadline, defaults.drain_deadline);
  EXPECT_EQ(example->device.capacity_bytes, defaults.device.capacity_bytes);
  EXPECT_EQ(example->device.verify, defaults.device.verify);
  EXPECT_EQ(example->device.kind, defaults.device.kind);
  EXPECT_EQ(example->device.overlap_bytes, defaults.device.overlap_bytes);
  EXPECT_EQ(example->host.capacity_bytes, defaults.host.capacity_bytes);
  EXPECT_EQ(example->arena.slab_bytes, defaults.arena.slab_bytes);
  EXPECT_EQ(example->disk.enabled, defaults.disk.enabled);
  EXPECT_EQ(example->disk.capacity_bytes, defaults.disk.capacity_bytes);
  EXPECT_EQ(example->arena.clean_low, defaults.arena.clean_low);
  EXPECT_EQ(example->arena.clean_high, defaults.arena.clean_high);
  EXPECT_EQ(example->pins.capacity_bytes, defaults.pins.capacity_bytes);
  EXPECT_EQ(example->host.write, defaults.host.write);
  EXPECT_EQ(example->disk.write, defaults.disk.write);
  EXPECT_EQ(example->disk.write_behind_hour_bytes, defaults.disk.write_behind_hour_bytes);
  EXPECT_EQ(example->disk.write_behind_day_bytes, defaults.disk.write_behind_day_bytes);
  EXPECT_EQ(example->disk.codec, defaults.disk.codec);
  EXPECT_EQ(example->disk.zstd_level, defaults.disk.zstd_level);
  EXPECT_EQ(example->disk.ring, defaults.disk.ring);
  EXPECT_EQ(example->redis.endpoints, defaults.redis.endpoints);
  EXPECT_TRUE(example->redis.endpoints.empty()) << "off";
  EXPECT_EQ(example->redis.mode, defaults.redis.mode);
  EXPECT_EQ(example->redis.user, defaults.redis.user);
  EXPECT_EQ(example->redis.password, defaults.redis.password);
  EXPECT_EQ(example->redis.database, defaults.redis.database);
  EXPECT_EQ(example->redis.key_prefix, defaults.redis.key_prefix);
  EXPECT_EQ(example->redis.ttl, defaults.redis.ttl);
  EXPECT_EQ(example->redis.write, defaults.redis.write);
  EXPECT_EQ(example->redis.connect_timeout, defaults.redis.connect_timeout);
  EXPECT_EQ(example->redis.request_timeout, defaults.redis.request_timeout);
  EXPECT_EQ(example->redis.lookup_timeout, defaults.redis.lookup_timeout);
  EXPECT_EQ(example->redis.load_timeout, defaults.redis.load_timeout);
  EXPECT_EQ(example->redis.connections, defaults.redis.connections);
  EXPECT_EQ(example->redis.max_in_flight_bytes, defaults.redis.max_in_flight_bytes);
  EXPECT_EQ(example->redis.tls.enabled, defaults.redis.tls.enabled);
  EXPECT_EQ(example->redis.tls.ca_file, defaults.redis.tls.ca_file);
  EXPECT_EQ(example->redis.tls.verify, defaults.redis.tls.verify);
  EXPECT_EQ(example->eviction.policy, defaults.eviction.policy);
  EXPECT_EQ(example->limits.max_sessions, defaults.limits.max_sessions);
  EXPECT_EQ(example->limits.max_keys_per_call, defaults.limits.max_keys_per_call);
  EXPECT_EQ(example->limits.max_leases_per_session, defaults.limits.max_leases_per_session);
  EXPECT_EQ(example->limits.max_queued_bytes, defaults.limits.max_queued_bytes);
  EXPECT_EQ(example->limits.max_message_bytes, defaults.limits.max_message_bytes);
  EXPECT_EQ(example->log.level, defaults.log.level);
  EXPECT_EQ(example->log.format, defaults.log.format);
  EXPECT_EQ(example->log.slow, defaults.log.slow);
  EXPECT_EQ(example->http.listen->host, defaults.http.listen->host);
  EXPECT_EQ(example->http.listen->port, defaults.http.listen->port);
  EXPECT_EQ(example->http.allow_remote, defaults.http.allow_remote);
}

TEST(DaemonConfig, ReadsEveryOption) {
  const ConfigFile file(R"(
socket = "/tmp/a.sock"
data_dir = "/tmp/data"
request_budget_ms = 50
drain_deadline_s = 5
device = {accelerator = "cuda:3", capacity = "128MiB", verify = "always", overlap = "64MiB"}
host = {capacity = 134217728, write = "on_second_use"}
arena = {slab = "1MiB", clean_low = 0.2, clean_high = 0.25}
[disk]
enabled = false
capacity = "2GiB"
write = "on_evict"
write_behind_per_hour = "1GiB"
write_behind_per_day = 0
codec = "zstd"
zstd_level = 3
ring = "threads"
[redis]
endpoints = ["a:1", "[::1]:2"]
mode = "cluster"
user = "me"
password = "secret"
prefix = "kv"
ttl_s = 0
write = "behind"
connect_timeout_ms = 1
request_timeout_ms = 2
lookup_timeout_ms = 3
load_timeout_ms = 4
connections = 5
max_in_flight = "8MiB"
tls = {enabled = true, ca_file = "ca", certificate_file = "c", key_file = "k", server_name = "n", verify = false}
[pins]
capacity = "2MiB"
[eviction]
policy = "lru"
[limits]
max_sessions = 2
max_keys_per_call = 3
max_leases_per_session = 4
max_queued_bytes = "1MiB"
max_message_bytes = 1048576
[log]
level = "debug"
)");
  const auto config = load(file);
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->socket_path, "/tmp/a.sock");
  EXPECT_EQ(config->data_dir, "/tmp/data");
  EXPECT_EQ(config->request_budget.count(), 50);
  EXPECT_EQ(config->drain_deadline.count(), 5);
  EXPECT_EQ(config->device.capacity_bytes, 128 * mib);
  EXPECT_EQ(config->device.verify, DeviceVerify::always);
  EXPECT_EQ(config->device.kind, DeviceKind::cuda);
  EXPECT_EQ(config->device.cuda_ordinal, 3);
  EXPECT_EQ(config->device.overlap_bytes, 64 * mib);
  EXPECT_EQ(config->host.capacity_bytes, 128 * mib);
  EXPECT_EQ(config->arena.slab_bytes, 1 * mib);
  EXPECT_FALSE(config->disk.enabled);
  EXPECT_EQ(config->disk.capacity_bytes, 2 * gib);
  EXPECT_EQ(config->pins.capacity_bytes, 2 * mib);
  EXPECT_EQ(config->host.write, WritePolicy::on_second_use);
  EXPECT_EQ(config->arena.clean_low, 0.2);
  EXPECT_EQ(config->arena.clean_high, 0.25);
  EXPECT_EQ(config->disk.write, WritePolicy::on_evict);
  EXPECT_EQ(config->disk.write_behind_hour_bytes, 1 * gib);
  EXPECT_EQ(config->disk.write_behind_day_bytes, 0u);
  EXPECT_EQ(config->disk.codec, DiskCodec::zstd);
  EXPECT_EQ(config->disk.zstd_level, 3);
  EXPECT_EQ(config->disk.ring, DiskRing::threads);
  const RedisOptions& redis = config->redis;
  EXPECT_EQ(redis.endpoints, (std::vector<std::string>{"a:1", "[::1]:2"}));
  EXPECT_EQ(redis.mode, RedisMode::cluster);
  EXPECT_EQ(redis.user, "me");
  EXPECT_EQ(redis.password, "secret");
  EXPECT_EQ(redis.key_prefix, "kv");
  EXPECT_EQ(redis.ttl.count(), 0);
  EXPECT_EQ(redis.write, WritePolicy::behind);
  EXPECT_EQ(redis.connect_timeout.count(), 1);
  EXPECT_EQ(redis.request_timeout.count(), 2);
  EXPECT_EQ(redis.lookup_timeout.count(), 3);
  EXPECT_EQ(redis.load_timeout.count(), 4);
  EXPECT_EQ(redis.connections, 5u);
  EXPECT_EQ(redis.max_in_flight_bytes, 8 * mib);
  EXPECT_TRUE(redis.tls.enabled);
  EXPECT_EQ(redis.tls.ca_file + redis.tls.certificate_file + redis.tls.key_file, "cack");
  EXPECT_EQ(redis.tls.server_name, "n");
  EXPECT_FALSE(redis.tls.verify);
  EXPECT_EQ(config->eviction.policy, EvictionPolicy::lru);
  EXPECT_EQ(config->limits.max_sessions, 2u);
  EXPECT_EQ(config->limits.max_keys_per_call, 3u);
  EXPECT_EQ(config->limits.max_leases_per_session, 4u);
  EXPECT_EQ(config->limits.max_queued_bytes, 1 * mib);
  EXPECT_EQ(config->limits.max_message_bytes, 1 * mib);
  EXPECT_EQ(config->log.level, LogLevel::debug);
}

TEST(DaemonConfig, BlocksOfSpacesMayHaveAMaximumAge) {
  const ConfigFile file(R"(
[spaces."Some Model 1.5B"]
max_age = "36h"
[spaces."*"]
max_age = 0
)");
  const auto config = load(file);
  ASSERT_TRUE(config) << config.error().to_string();
  ASSERT_EQ(config->spaces.size(), 2u);
  for (const SpaceOptions& space : config->spaces)
    EXPECT_EQ(space.max_age.count(), space.name == "*" ? 0 : 36 * 3600);
  EXPECT_EQ(load_with({"spaces.x.max_age=\"7d\""})->spaces[0].max_age.count(), 7 * 86400);
  EXPECT_EQ(load_with({"spaces.x.max_age=900"})->spaces[0].max_age.count(), 900);
  for (const char* wrong : {"\"7 weeks\"", "\"5m\"", "\"-1d\"", "\"d\"", "\"7dd\"", "1.5"})
    EXPECT_THAT(message_with({("spaces.x.max_age=" + std::string(wrong)).c_str()}),
                HasSubstr("expected a time from 10m to 36600d, such as \"90m\" or \"7d\", or 0"))
        << wrong;
}

TEST(DaemonConfig, MarksAreInOrder) {
  EXPECT_THAT(message_with({"arena.clean_low=0.2"}),
              HasSubstr("arena.clean_low: found more than arena.clean_high"));
}

TEST(DaemonConfig, UnknownKeyNamesFileLineAndWhatWasMeant) {
  EXPECT_EQ(message_for("[device]\n\ncapcity = 1\n"),
            "test.toml:3: device.capcity: unknown key, expected perhaps device.capacity");
  EXPECT_EQ(message_for("wibble = 1"),
            "test.toml:1: wibble: unknown key, expected one that the commented example lists");
}

TEST(DaemonConfig, UnknownSectionIsReportedOnce) {
  EXPECT_EQ(message_for("\n[kubernetes]\npods = 1\nnodes.west = 2\n"),
            "test.toml:2: kubernetes: unknown key, expected one that the commented example lists");
}

TEST(DaemonConfig, WrongTypeSaysWhatWasFoundAndExpected) {
  EXPECT_EQ(message_for("[disk]\nenabled = \"yes\""),
            "test.toml:2: disk.enabled: found the text 'yes', expected true or false");
  EXPECT_EQ(message_for("request_budget_ms = 1.5"),
            "test.toml:1: request_budget_ms: found the number 1.5, expected a whole number from 1 "
            "to 60000");
  EXPECT_EQ(message_for("socket = [1]"),
            "test.toml:1: socket: found a list, expected text in quotes");
  EXPECT_EQ(message_for("device = 5"),
            "test.toml:1: device: found the number 5, expected a section [device]");
  EXPECT_EQ(message_for("[device.capacity]\nbytes = 5"),
            "test.toml:1: device.capacity: found a section, expected a size from 64 KiB to " +
                format_bytes(static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                             static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE))) +
                ", such as \"512MiB\"");
  EXPECT_EQ(message_for("[device]\nverify = \"sometimes\""),
            "test.toml:2: device.verify: found the text 'sometimes', expected one of \"never\", "
            "\"first_use\", \"always\"");
}

TEST(DaemonConfig, NamesTheDeviceOfTheArena) {
  EXPECT_EQ(load_with({"device.accelerator=auto"})->device.kind, DeviceKind::automatic);
  EXPECT_EQ(load_with({"device.accelerator=emulated"})->device.kind, DeviceKind::emulated);
  EXPECT_EQ(load_with({"device.accelerator=cuda:0"})->device.cuda_ordinal, 0);
  for (const char* wrong : {"device.accelerator=cuda", "device.accelerator=cuda:",
                            "device.accelerator=cuda:-1", "device.accelerator=cuda:1x",
                            "device.accelerator=gpu", "device.accelerator=cuda:99999999999"})
    EXPECT_THAT(message_with({wrong}), HasSubstr("expected \"emulated\", \"auto\" or \"cuda:\""))
        << wrong;
}

TEST(DaemonConfig, AbsurdValuesAreRefused) {
  // More memory than any machine has, none at all, a negative size, no size.
  for (const char* size : {"\"900TiB\"", "0", "-1", "\"much\"", "\"99999999999999999999GiB\""})
    EXPECT_THAT(message_for(std::string("device.capacity = ") + size),
                AllOf(StartsWith("test.toml:1: device.capacity: found "),
                      HasSubstr("expected a size from")))
        << size;
  EXPECT_THAT(message_for("request_budget_ms = 0"), HasSubstr("from 1 to 60000"));
  EXPECT_THAT(message_for("request_budget_ms = 99999999999999999"), HasSubstr("from 1 to 60000"));
  EXPECT_THAT(message_for("limits.max_sessions = 0"), HasSubstr("from 1 to 100000"));
  EXPECT_THAT(message_for("limits.max_sessions = 4294967297"), HasSubstr("from 1 to 100000"));
  EXPECT_THAT(message_for("disk.zstd_level = 20"), HasSubstr("from 1 to 19"));
  EXPECT_THAT(message_for("data_dir = ''"), HasSubstr("expected a directory"));
  EXPECT_THAT(message_for("socket = ''"), HasSubstr("expected the path of a socket"));
  EXPECT_THAT(message_for("socket = '/" + std::string(200, 'x') + "'"),
              HasSubstr("found a path of 201 bytes, expected at most 107"));
  EXPECT_THAT(message_for("data_dir = \"a\\u0000b\""), HasSubstr("expected text"));
}

TEST(DaemonConfig, OptionsMustAgreeWithEachOther) {
  EXPECT_EQ(message_for("arena.slab = \"256MiB\"\ndevice.capacity = \"128MiB\""),
            "test.toml:2: device.capacity: found 128 MiB, expected at least one slab of 256 MiB");
  EXPECT_EQ(message_for("host.capacity = \"1MiB\""),
            "test.toml:1: host.capacity: found 1 MiB, expected 0 or at least one slab of 64 MiB");
  EXPECT_EQ(message_for("arena.slab = 100000"),
            "test.toml:1: arena.slab: found 100000, expected a power of two");
}

TEST(DaemonConfig, HostCapacityCanBeOffAutoOrASize) {
  EXPECT_EQ(load_with({"host.capacity=0"})->host.capacity_bytes, 0u);
  EXPECT_EQ(load_with({"host.capacity=auto"})->host.capacity_bytes, std::nullopt);
  EXPECT_EQ(load_with({"host.capacity=64MiB"})->host.capacity_bytes, 64 * mib);
  EXPECT_THAT(message_with({"host.capacity=many"}), EndsWith("or \"auto\""));
}

TEST(DaemonConfig, WhatDoesNotParseNamesTheLine) {
  EXPECT_THAT(message_for("[device]\ncapacity = = 1\n"),
              StartsWith("test.toml:2: does not parse: "));
  EXPECT_THAT(message_for("[device]\nverify = \"never\"\nverify = \"always\"\n"),
              StartsWith("test.toml:3: does not parse: "));
  EXPECT_THAT(message_for("\x7f"
                          "ELF\x01\x02"),
              StartsWith("test.toml:1: does not parse: "));
}

TEST(DaemonConfig, SeveralProblemsAreOneLine) {
  const std::string message = message_for("wibble = 1\n[disk]\nenabled = 1\n[log]\nlevel = 3\n");
  EXPECT_THAT(message,
              AllOf(HasSubstr("test.toml:1: wibble"), HasSubstr("test.toml:3: disk.enabled"),
                    HasSubstr("test.toml:5: log.level"), Not(HasSubstr("\n"))));
}

TEST(DaemonConfig, FileThatCannotBeReadIsAnIoError) {
  const ConfigFile file("");
  const auto absent = load_daemon_config(file.directory() / "absent.toml", {});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code(), StatusCode::io_error);
  EXPECT_THAT(absent.error().message(), AllOf(HasSubstr("absent.toml"), HasSubstr("No such file")));
  const auto directory = load_daemon_config(file.directory(), {});
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message(), HasSubstr("is a directory"));
  EXPECT_THAT(message_for(std::string(max_config_file_bytes + 1, '#')),
              HasSubstr("larger than 1 MiB"));
}

TEST(DaemonConfig, EveryKeyOfTheExampleIsCheckedUnderItsOwnLine) {
  std::ifstream example(std::filesystem::path(TERRACE_CONFIG_DIR) / "terraced.toml");
  std::vector<std::string> lines;
  for (std::string line; std::getline(example, line);)
    lines.push_back(std::regex_replace(line, std::regex("^# (\\w+ = \")"), "$1"));
  ASSERT_GT(lines.size(), 20u);
  std::size_t keys = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::smatch key;
    if (!std::regex_search(lines[i], key, std::regex("^(\\w+) = "))) continue;
    ++keys;
    std::string text;
    for (std::size_t j = 0; j < lines.size(); ++j)
      text += (j == i ? key[1].str() + " = 1979-05-27" : lines[j]) + "\n";
    EXPECT_THAT(message_for(text),
                AllOf(StartsWith("test.toml:" + std::to_string(i + 1) + ": "),
                      HasSubstr(key[1].str() + ": found a date or time, expected ")));
  }
  EXPECT_GE(keys, 19u);
}

// What a setting is, without where it comes from.
TEST(DaemonConfig, ModelsHaveALabelAndAFile) {
  const auto config =
      load_with({"models.a.file=/m/a.gguf", "models.b.file=/m/b.gguf", "models.b.label=The B"});
  ASSERT_TRUE(config) << config.error().to_string();
  ASSERT_EQ(config->models.size(), 2u);
  EXPECT_EQ(config->models[0].label, "a");
  EXPECT_EQ(config->models[0].file, "/m/a.gguf");
  EXPECT_EQ(config->models[1].label, "The B");
  EXPECT_THAT(message_with({"models.a.label=x"}), HasSubstr("expected a GGUF file"));
}

}  // namespace
}  // namespace terrace::config
