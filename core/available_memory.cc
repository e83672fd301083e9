#include "core/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace terrace {
namespace {

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;  // not there, or "max"
}

// The number behind `name` in a file of lines "name number".
std::optional<std::uint64_t> read_named(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    std::uint64_t number = 0;
    if (words >> word && word == name && words >> number) return number;
  }
  return std::nullopt;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
  const char* droppable;  // in memory.stat
};
constexpr GroupFiles version_1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles version_2{"memory.max", "memory.current", "inactive_file"};

// What the group at `path` and those above it leave. In a container the path may be the host's:
// groups that are not visible leave what those above them do.
std::optional<std::uint64_t> left_in_groups(const std::string& hierarchy, std::string path,
                                            const GroupFiles& files) {
  std::optional<std::uint64_t> least;
  for (;;) {
    const std::string folder = hierarchy + path + "/";
    const auto limit = read_number(folder + files.limit);
    const auto usage = read_number(folder + files.usage);
    if (limit && usage) {
      const std::uint64_t droppable =
          std::min(*usage, read_named(folder + "memory.stat", files.droppable).value_or(0));
      const std::uint64_t used = *usage - droppable;
      const std::uint64_t left = *limit > used ? *limit - used : 0;
      least = std::min(least.value_or(left), left);
    }
    const std::size_t slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return least;
    path.erase(slash);
  }
}

}  // namespace

Result<std::uint64_t> available_memory_bytes(const std::string& root) {
  const auto kib = read_named(root + "/proc/meminfo", "MemAvailable:");
  if (!kib) return error(StatusCode::io_error, "/proc/meminfo does not say what is available");
  std::uint64_t available = *kib * 1024;
  // Lines "number:controllers:path"; version 2 has no controllers.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    std::optional<std::uint64_t> left;
    if (controllers.empty()) {
      left = left_in_groups(root + "/sys/fs/cgroup", path, version_2);
    } else if (("," + controllers + ",").find(",memory,") != std::string::npos) {
      left = left_in_groups(root + "/sys/fs/cgroup/memory", path, version_1);
    }
    if (left) available = std::min(available, *left);
  }
  return available;
}

}  // namespace terrace
