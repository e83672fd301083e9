// What `terrace doctor` makes of what it found.
#include "client/cli/doctor/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cli/doctor/disk_checks.h"
#include "client/cli/doctor/kernel_checks.h"
#include "client/cli/doctor/memory_checks.h"
#include "client/cli/doctor/redis_check.h"
#include "client/cli/doctor/service_checks.h"
#include "core/bytes.h"
#include "tests/support/temp_dir.h"

namespace terrace::cli::doctor {
namespace {

using ::testing::HasSubstr;

Severity worst(const Findings& findings) {
  Severity severity = Severity::ok;
  for (const Finding& finding : findings) severity = std::max(severity, finding.severity);
  return severity;
}

// Whoever is told of something is told what to do.
void expect(const Findings& findings, Severity severity, const std::string& text = "") {
  std::string all;
  for (const Finding& finding : findings) {
    all += finding.what + "\n";
    EXPECT_EQ(finding.severity == Severity::ok, finding.advice.empty()) << finding.what;
  }
  EXPECT_EQ(worst(findings), severity) << all;
  EXPECT_THAT(all, HasSubstr(text));
}

TEST(Doctor, MemoryMustHoldTheArenas) {
  MemoryFacts facts;
  facts.arena_bytes = 4 * gib;
  facts.available_bytes = 8 * gib;
  facts.can_collapse = true;
  expect(check_memory(facts), Severity::ok, "4 GiB for device and host tier of 8 GiB");
  facts.available_bytes = 4 * gib + 100 * mib;
  expect(check_memory(facts), Severity::warning, "leave less than 512 MiB");
  facts.available_bytes = 2 * gib;
  expect(check_memory(facts), Severity::problem, "are to take 4 GiB, and 2 GiB can be had");
  // Of a daemon that runs the arenas are taken already.
  facts.daemon_runs = true;
  expect(check_memory(facts), Severity::ok);
  facts.available_bytes.reset();
  expect(check_memory(facts), Severity::warning);
}

TEST(Doctor, HugePagesComeByASettingOrByAKernelThatIsNewEnough) {
  MemoryFacts facts;
  facts.available_bytes = 8 * gib;
  facts.shmem_huge_pages = chosen_word("always within_size advise [never] deny force");
  EXPECT_EQ(facts.shmem_huge_pages, "never");
  expect(check_memory(facts), Severity::warning, "no huge pages");
  facts.can_collapse = true;
  expect(check_memory(facts), Severity::ok);
  facts.can_collapse = false;
  facts.shmem_huge_pages = "advise";
  expect(check_memory(facts), Severity::ok);
  EXPECT_EQ(chosen_word("none"), "");
}

TEST(Doctor, LimitsAreThoseOfTheProcess) {
  LimitFacts facts = parse_limits(
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max processes             100                  100                  processes \n"
      "Max open files            1024                 4096                 files     \n"
      "Max locked memory         8388608              8388608              bytes     \n");
  EXPECT_EQ(facts.open_files, 4096u);
  EXPECT_EQ(facts.memlock_bytes, 8388608u);
  facts.max_sessions = 256;
  expect(check_limits(facts), Severity::ok, "8 MiB");
  facts.pinned_bytes = 1 * gib;
  expect(check_limits(facts), Severity::warning, "a host arena of 1 GiB is to be pinned");
  facts =
      parse_limits("Max open files 256 256 files\nMax locked memory unlimited unlimited bytes\n");
  EXPECT_FALSE(facts.memlock_bytes.has_value());
  facts.max_sessions = 256;
  expect(check_limits(facts), Severity::problem, "may be 256");
}

TEST(Doctor, TheRingIsMissedWhereItIsAskedFor) {
  expect(check_ring({true, true, 0}), Severity::ok);
  expect(check_ring({true, false, EPERM}), Severity::warning, "with threads instead");
  expect(check_ring({true, true, EPERM}), Severity::problem, "will not start");
  expect(check_ring({false, false, ENOSYS}), Severity::ok);
}

TEST(Doctor, AGpuIsMissedWhereItIsAskedFor) {
  expect(check_gpu({false, false, "", "no driver"}), Severity::ok);
  expect(check_gpu({true, false, "", "no driver"}), Severity::warning, "no driver");
  expect(check_gpu({true, true, "", "no driver"}), Severity::problem);
  expect(check_gpu({true, true, "NVIDIA H200", ""}), Severity::ok, "NVIDIA H200");
  expect(check_gpu({false, false, "NVIDIA H200", ""}), Severity::ok, "does not use it");
}

TEST(Doctor, ADirectoryMustBeWritableLargeAndFast) {
  DirectoryFacts facts;
  facts.path = facts.exists_as = "/data";
  facts.is_directory = facts.writable = true;
  facts.file_system = "ext4";
  facts.free_bytes = 5 * gib;
  facts.used_by_terrace_bytes = 3 * gib;
  facts.capacity_bytes = 8 * gib;
  facts.speed = DiskSpeed{1e9, 3e9, true};
  expect(check_directory(facts), Severity::ok, "8 GiB of 8 GiB in /data");
  facts.speed->read_bytes_per_s = 100e6;
  expect(check_directory(facts), Severity::warning, "reads 95.4 MiB/s");
  facts.speed.reset();
  facts.speed_failure = Status(StatusCode::io_error, "could not read in /data");
  expect(check_directory(facts), Severity::problem, "could not read in /data");
  facts.speed_failure = {};
  facts.capacity_bytes = 9 * gib;
  expect(check_directory(facts), Severity::problem, "is to hold 9 GiB, and has room for 8 GiB");
  facts.capacity_bytes = 1 * gib;
  for (const char* type : {"tmpfs", "overlay", "nfs"}) {
    facts.file_system = type;
    expect(check_directory(facts), Severity::warning);
  }
  facts.writable = false;
  expect(check_directory(facts), Severity::problem, "cannot be written to");
  facts.is_directory = false;
  expect(check_directory(facts), Severity::problem, "is no directory");
}

TEST(Doctor, ADirectoryThatIsNotThereYetIsSeenByTheOneAboveIt) {
  const test_support::TempDir directory;
  const DirectoryFacts facts = gather_directory(directory.file("a/b"), 1, false);
  EXPECT_EQ(facts.exists_as, directory.path());
  EXPECT_TRUE(facts.writable);
  EXPECT_EQ(facts.used_by_terrace_bytes, 0u);
  std::ofstream(directory.file("data-0")) << "12345";
  EXPECT_EQ(gather_directory(directory.path(), 1, false).used_by_terrace_bytes, 5u);
}

TEST(Doctor, MeasuringADiskLeavesNothingThere) {
  const test_support::TempDir directory;
  const auto speed = measure_disk_speed(directory.path(), 4 * mib);
  ASSERT_TRUE(speed.has_value()) << speed.error().message();
  EXPECT_GT(speed->write_bytes_per_s, 0);
  EXPECT_GT(speed->read_bytes_per_s, 0);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  EXPECT_FALSE(measure_disk_speed(directory.file("absent"), mib).has_value());
}

TEST(Doctor, ASocketTellsWhetherSomebodyListens) {
  SocketFacts facts;
  facts.path = "/run/s";
  expect(check_socket(facts), Severity::warning, "no daemon runs");
  facts.exists = true;
  expect(check_socket(facts), Severity::problem, "is no socket");
  facts.is_socket = true;
  expect(check_socket(facts), Severity::ok);
  facts.connect_error = ECONNREFUSED;
  expect(check_socket(facts), Severity::warning, "nobody listens");
  facts.connect_error = EACCES;
  expect(check_socket(facts), Severity::problem, "may not connect");
  facts.connect_error = EAGAIN;
  expect(check_socket(facts), Severity::problem, "stopped or overloaded");

  const test_support::TempDir directory;
  EXPECT_FALSE(gather_socket(directory.file("absent")).exists);
  std::ofstream(directory.file("file")) << "x";
  EXPECT_TRUE(gather_socket(directory.file("file")).exists);
  EXPECT_FALSE(gather_socket(directory.file("file")).is_socket);
}

TEST(Doctor, ADaemonsFiguresTellWhatWentWrong) {
  nlohmann::json stats = {{"version", "1.0"}, {"pid", 7}};
  for (const char* tier : {"device", "host", "disk", "redis"})
    stats["tiers"][tier] = {{"capacity_bytes", 1}, {"corruptions", 0}, {"failures", 0}};
  const auto findings = [&] {
    const auto facts = read_daemon(stats.dump(), "1.0");
    EXPECT_TRUE(facts.has_value());
    return check_daemon(facts.value_or(DaemonFacts()));
  };
  expect(findings(), Severity::ok, "terraced 1.0 answers, process 7");
  stats["tiers"]["disk"]["corruptions"] = 1;
  expect(findings(), Severity::warning, "1 block did not verify");
  stats["tiers"]["disk"]["failures"] = 2;
  expect(findings(), Severity::warning, "2 operations of tiers failed");
  stats["redis"] = {{"breaker", "open"}, {"last_failure", "refused"}};
  expect(findings(), Severity::warning, "does without Redis at the moment: refused");
  stats["tiers"]["device"]["capacity_bytes"] = 0;
  expect(findings(), Severity::warning, "waits for room");
  stats["version"] = "0.9";
  expect(findings(), Severity::warning, "terraced 0.9 runs, and this is terrace 1.0");
  EXPECT_FALSE(read_daemon("[]", "1.0").has_value());
  EXPECT_FALSE(read_daemon("{", "1.0").has_value());
}

TEST(Doctor, RedisMustAnswer) {
  RedisFacts facts;
  facts.endpoint = "cache:6379";
  facts.answer_ms = 0.5;
  expect(check_redis(facts), Severity::ok, "cache:6379 answers within 0.5 ms");
  facts.answer_ms = 50;
  expect(check_redis(facts), Severity::warning);
  facts.answered = Status(StatusCode::failed_precondition, "-NOAUTH");
  expect(check_redis(facts), Severity::problem, "does not answer PING: -NOAUTH");
  facts.connected = Status(StatusCode::unavailable, "Connection refused");
  expect(check_redis(facts), Severity::problem, "could not connect to cache:6379");
}

TEST(Doctor, AClockBeforeThisProgramIsWrong) {
  expect(check_clock(1'767'225'600'000), Severity::ok);
  expect(check_clock(0), Severity::warning, "1970-01-01 00:00:00 UTC");
}

TEST(Doctor, TheVerdictCountsProblemsAndIfAskedToWarnings) {
  Findings findings = {{"a", Severity::ok, "fine", ""}, {"b", Severity::warning, "so so", "do"}};
  EXPECT_TRUE(verdict(findings, false).ok());
  EXPECT_EQ(verdict(findings, true).message(), "0 problems and 1 warning found");
  findings.push_back({"c", Severity::problem, "bad\x1b[2J", "do more"});
  EXPECT_EQ(verdict(findings, false).message(), "1 problem found");
  std::ostringstream table, json;
  print_findings(findings, false, table);
  EXPECT_THAT(table.str(), HasSubstr("problem  c           bad?[2J\n"));
  EXPECT_THAT(table.str(), HasSubstr("-> do more\n1 problem, 1 warning\n"));
  print_findings(findings, true, json);
  const auto object = nlohmann::json::parse(json.str());
  EXPECT_EQ(object.at("problems"), 1);
  EXPECT_EQ(object.at("checks")[2].at("result"), "problem");
  EXPECT_FALSE(object.at("checks")[0].contains("advice"));
}

}  // namespace
}  // namespace terrace::cli::doctor
