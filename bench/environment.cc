#include "bench/environment.h"

#include <sched.h>
#include <sys/utsname.h>
#include <sys/vfs.h>

#include <fstream>
#include <ostream>
#include <string_view>

namespace terrace::bench {

namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

std::string file_system(const std::string& path) {
  struct statfs info;
  if (::statfs(path.c_str(), &info) != 0) return "unknown";
  switch (static_cast<unsigned long>(info.f_type)) {
    case 0xEF53:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case 0x9123683E:
      return "btrfs";
    case 0x01021994:
      return "tmpfs";
    case 0x794C7630:
      return "overlayfs";
    default:
      return "type " + std::to_string(info.f_type);
  }
}

}  // namespace

bool is_debug_build() {
#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#else
  return false;
#endif
}

void print_environment(std::ostream& out, const std::string& path) {
  utsname kernel{};
  ::uname(&kernel);
  out << "CPU: " << cpu_model() << ", " << usable_cores() << " cores; kernel " << kernel.release
      << "; build " << TERRACE_BUILD_TYPE << " " << TERRACE_VERSION;
  if (!path.empty()) out << "; " << path << " on " << file_system(path);
  out << "\n";
  if (is_debug_build()) out << "WARNING: not an optimized build; these figures mean nothing.\n";
}

}  // namespace terrace::bench
