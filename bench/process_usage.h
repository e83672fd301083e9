// What another process has used, as the kernel says.
#pragma once

#include <sys/types.h>
#include <time.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace terrace::bench {

// Processor time of all its threads; 0 if there is no such process.
inline double cpu_seconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// A field of /proc/PID/status that is in kB, such as "RssAnon"; 0 if it is not there.
inline std::uint64_t status_bytes(pid_t pid, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stoull(line.substr(field.size() + 1)) * 1024;
  return 0;
}

}  // namespace terrace::bench
