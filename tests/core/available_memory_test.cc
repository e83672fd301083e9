#include "core/available_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_dir.h"

namespace terrace {
namespace {

class AvailableMemory : public ::testing::Test {
 protected:
  AvailableMemory() { write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable:    500 kB\n"); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = directory_.file(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::uint64_t available() const { return available_memory_bytes(directory_.path()).value_or(0); }

  test_support::TempDir directory_;
};

TEST_F(AvailableMemory, IsWhatTheMachineHas) { EXPECT_EQ(available(), 500u * 1024); }

TEST_F(AvailableMemory, IsLessWhereAGroupHasALimit) {
  write("proc/self/cgroup", "0::/system.slice/terraced.service\n");
  const std::string folder = "sys/fs/cgroup/system.slice/terraced.service/";
  write(folder + "memory.max", "max\n");
  write(folder + "memory.current", "100000\n");
  EXPECT_EQ(available(), 500u * 1024);
  write(folder + "memory.max", "200000\n");
  EXPECT_EQ(available(), 100'000u);
  // Pages of files can be dropped.
  write(folder + "memory.stat", "anon 20000\ninactive_file 60000\n");
  EXPECT_EQ(available(), 160'000u);
  // The limit of a group above counts as well.
  write("sys/fs/cgroup/system.slice/memory.max", "300000\n");
  write("sys/fs/cgroup/system.slice/memory.current", "310000\n");
  EXPECT_EQ(available(), 0u);
}

TEST_F(AvailableMemory, KnowsGroupsOfTheFirstVersion) {
  write("proc/self/cgroup", "4:cpu:/a\n3:hugetlb,memory:/b\n0::/\n");
  write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/b/memory.usage_in_bytes", "100000\n");
  write("sys/fs/cgroup/memory/b/memory.stat", "total_inactive_file 30000\n");
  EXPECT_EQ(available(), 330'000u);
  // In a container the path may be the host's, and only the top be visible.
  write("proc/self/cgroup", "3:memory:/elsewhere/c\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "90000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "40000\n");
  EXPECT_EQ(available(), 50'000u);
}

TEST_F(AvailableMemory, OfThisMachineIsKnown) {
  EXPECT_GT(available_memory_bytes().value_or(0), 0u);
  EXPECT_FALSE(available_memory_bytes("/does/not/exist"));
}

}  // namespace
}  // namespace terrace
