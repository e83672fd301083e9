#include "client/cli/doctor/memory_checks.h"

#include <sys/utsname.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/available_memory.h"
#include "core/bytes.h"

namespace terrace::cli::doctor {
namespace {

// What the daemon and its workers need beside the arenas.
constexpr std::uint64_t memory_headroom_bytes = 512 * mib;
// Beside the sessions: data files, the index, Redis, HTTP.
constexpr std::uint64_t files_beside_sessions = 256;
constexpr std::uint64_t files_a_session = 3;

std::string whole_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool kernel_is_at_least(int major, int minor) {
  utsname name{};
  int its_major = 0, its_minor = 0;
  if (::uname(&name) != 0 || std::sscanf(name.release, "%d.%d", &its_major, &its_minor) != 2)
    return false;
  return its_major > major || (its_major == major && its_minor >= minor);
}

std::optional<std::uint64_t> limit_number(const std::string& word) {
  return word == "unlimited" ? std::nullopt : std::optional(std::stoull(word));
}

}  // namespace

std::string chosen_word(const std::string& text) {
  const auto open = text.find('['), close = text.find(']');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  return text.substr(open + 1, close - open - 1);
}

MemoryFacts gather_memory(std::uint64_t arena_bytes, int daemon_pid) {
  MemoryFacts facts;
  facts.arena_bytes = arena_bytes;
  facts.daemon_runs = daemon_pid != 0;
  if (const auto available = available_memory_bytes(); available)
    facts.available_bytes = *available;
  facts.shmem_huge_pages =
      chosen_word(whole_file("/sys/kernel/mm/transparent_hugepage/shmem_enabled"));
  facts.can_collapse = kernel_is_at_least(6, 1);
  return facts;
}

Findings check_memory(const MemoryFacts& facts) {
  Findings findings;
  if (!facts.available_bytes) {
    findings.push_back({"memory", Severity::warning, "the kernel does not say how much is free",
                        "see to it that /proc is mounted"});
  } else if (facts.daemon_runs) {
    findings.push_back({"memory", Severity::ok,
                        "the arenas of " + format_bytes(facts.arena_bytes) + " are the daemon's; " +
                            format_bytes(*facts.available_bytes) + " more can be had",
                        ""});
  } else if (*facts.available_bytes < facts.arena_bytes) {
    findings.push_back(
        {"memory", Severity::problem,
         "device and host tier are to take " + format_bytes(facts.arena_bytes) + ", and " +
             format_bytes(*facts.available_bytes) + " can be had of this machine or control group",
         "lower device.capacity and host.capacity, or raise the limit of the control group "
         "(systemd: MemoryMax=, containers: --memory)"});
  } else if (*facts.available_bytes < facts.arena_bytes + memory_headroom_bytes) {
    findings.push_back({"memory", Severity::warning,
                        "device and host tier leave less than " +
                            format_bytes(memory_headroom_bytes) + " of the " +
                            format_bytes(*facts.available_bytes) + " that can be had",
                        "lower device.capacity or host.capacity: the workers need memory, too"});
  } else {
    findings.push_back({"memory", Severity::ok,
                        format_bytes(facts.arena_bytes) + " for device and host tier of " +
                            format_bytes(*facts.available_bytes) + " that can be had",
                        ""});
  }
  const bool by_setting =
      facts.shmem_huge_pages == "always" || facts.shmem_huge_pages == "advise" ||
      facts.shmem_huge_pages == "within_size" || facts.shmem_huge_pages == "force";
  if (by_setting || facts.can_collapse)
    findings.push_back({"hugepages", Severity::ok,
                        by_setting ? "the kernel gives huge pages to shared memory"
                                   : "the kernel makes huge pages of arenas when asked to",
                        ""});
  else
    findings.push_back({"hugepages", Severity::warning,
                        "the kernel gives no huge pages to shared memory",
                        "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled, or Linux "
                        "6.1 or later: look-ups in large arenas are some 15 % slower without"});
  return findings;
}

LimitFacts parse_limits(const std::string& text) {
  LimitFacts facts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string max, name, second, soft, hard;
    words >> max >> name >> second;
    if (name == "locked" && words >> soft) facts.memlock_bytes = limit_number(soft);
    // The daemon raises this one as far as it may.
    if (name == "open" && words >> soft >> hard) facts.open_files = limit_number(hard);
  }
  return facts;
}

LimitFacts gather_limits(int daemon_pid) {
  const std::string of_daemon =
      daemon_pid == 0 ? "" : whole_file("/proc/" + std::to_string(daemon_pid) + "/limits");
  LimitFacts facts = parse_limits(of_daemon.empty() ? whole_file("/proc/self/limits") : of_daemon);
  facts.of_daemon = !of_daemon.empty();
  return facts;
}

Findings check_limits(const LimitFacts& facts) {
  const std::string whose = facts.of_daemon ? "of the daemon" : "of this shell";
  Findings findings;
  if (facts.memlock_bytes && *facts.memlock_bytes < facts.pinned_bytes)
    findings.push_back({"memlock", Severity::warning,
                        "locked memory " + whose + " may be " + format_bytes(*facts.memlock_bytes) +
                            ", and a host arena of " + format_bytes(facts.pinned_bytes) +
                            " is to be pinned for the GPU: copies may be slower",
                        "LimitMEMLOCK=infinity in the service, or ulimit -l unlimited"});
  else
    findings.push_back(
        {"memlock", Severity::ok,
         "locked memory " + whose + ": " +
             (facts.memlock_bytes ? format_bytes(*facts.memlock_bytes) : std::string("unlimited")) +
             (facts.pinned_bytes == 0 ? ", and none is needed" : ""),
         ""});
  const std::uint64_t needed = files_beside_sessions + files_a_session * facts.max_sessions;
  if (facts.open_files && *facts.open_files < needed)
    findings.push_back({"nofile", Severity::problem,
                        "open files " + whose + " may be " + std::to_string(*facts.open_files) +
                            ", and " + std::to_string(facts.max_sessions) + " sessions may need " +
                            std::to_string(needed),
                        "LimitNOFILE=65536 in the service, or ulimit -n, or lower "
                        "limits.max_sessions"});
  else
    findings.push_back({"nofile", Severity::ok,
                        "open files " + whose + ": " +
                            (facts.open_files ? std::to_string(*facts.open_files) : "unlimited") +
                            ", " + std::to_string(needed) + " may be needed",
                        ""});
  return findings;
}

}  // namespace terrace::cli::doctor
