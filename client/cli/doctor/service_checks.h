// Whether a daemon answers at the socket, and what it says of itself.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/doctor/finding.h"
#include "core/status.h"

namespace terrace::cli::doctor {

struct SocketFacts {
  std::string path;
  bool exists = false, is_socket = false;
  int connect_error = 0;       // errno of connecting; 0: somebody listens
  bool user_may_reach = true;  // no directory on the way is closed to this user
};
SocketFacts gather_socket(const std::string& path);
Findings check_socket(const SocketFacts& facts);

// What the daemon's figures say.
struct DaemonFacts {
  std::string own_version;  // of this program
  std::string version;
  int pid = 0;
  std::uint64_t corruptions = 0, failures = 0;  // of all tiers
  std::uint64_t device_capacity_bytes = 0;
  bool has_redis = false, redis_on = true;
  std::string redis_failure;
};
// internal if the text is not what the daemon sends.
Result<DaemonFacts> read_daemon(const std::string& stats_json, const std::string& own_version);
Findings check_daemon(const DaemonFacts& facts);

// What the configuration itself is like.
Findings check_configuration(const Status& loading, const std::string& file);

}  // namespace terrace::cli::doctor
