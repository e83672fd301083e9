// Whether the servers of the Redis tier answer.
#pragma once

#include <chrono>
#include <string>

#include "client/cli/doctor/finding.h"
#include "config/daemon_config.h"
#include "core/status.h"

namespace terrace::cli::doctor {

struct RedisFacts {
  std::string endpoint;
  bool tls = false;  // then only the connection is tried
  Status connected, answered;
  double answer_ms = 0;
};

// Connects, logs in where a password is configured, and asks PING, within the configured timeouts.
RedisFacts gather_redis(const std::string& endpoint, const config::RedisOptions& options);
Findings check_redis(const RedisFacts& facts);

}  // namespace terrace::cli::doctor
