// Whether the machine has the memory that the tiers are to take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/doctor/finding.h"

namespace terrace::cli::doctor {

struct MemoryFacts {
  std::uint64_t arena_bytes = 0;  // device and host tier, as far as they are this machine's memory
  // What a process may still take: of the machine, or of the control group.
  std::optional<std::uint64_t> available_bytes;
  // The arenas are taken already.
  bool daemon_runs = false;
  std::string shmem_huge_pages;  // of the kernel, "never" or the like; "" unknown
  bool can_collapse = false;     // MADV_COLLAPSE: since Linux 6.1
};

// `daemon_pid`: 0 if none runs.
MemoryFacts gather_memory(std::uint64_t arena_bytes, int daemon_pid);
Findings check_memory(const MemoryFacts& facts);

// Limits of the daemon's process, or of this one where no daemon can be looked at.
struct LimitFacts {
  bool of_daemon = false;
  // Nothing: unlimited.
  std::optional<std::uint64_t> memlock_bytes, open_files;
  std::uint32_t max_sessions = 0;
  std::uint64_t pinned_bytes = 0;  // the host arena where a GPU copies from and to it
};

LimitFacts gather_limits(int daemon_pid);
Findings check_limits(const LimitFacts& facts);

// The limits as /proc/PID/limits lists them.
LimitFacts parse_limits(const std::string& text);
// The word in brackets: "always [never]" -> "never".
std::string chosen_word(const std::string& text);

}  // namespace terrace::cli::doctor
