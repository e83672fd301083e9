// What the capabilities that the daemon serves share. Everything is owned by Daemon and lives as
// long as any connection.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_set>

#include "cache_daemon/access_policy.h"
#include "cache_daemon/call_metrics.h"
#include "cache_daemon/deadline_timer.h"
#include "cache_daemon/device_tier.h"
#include "cache_daemon/session_table.h"
#include "config/daemon_config.h"
#include "protocol/terrace.capnp.h"
#include "storage/tiered_cache.h"

namespace terrace::daemon {

struct Peer;

struct Context {
  const config::DaemonConfig& config;
  storage::TieredCache& cache;
  const AccessPolicy& access;
  SessionTable& sessions;
  DeadlineTimer& deadlines;
  const DeviceTier& device;
  kj::UnixEventPort& event_port;
  std::string boot_id;
  std::chrono::steady_clock::time_point started;
  std::int64_t started_unix_ms = 0;  // the same moment
  // Read by those who tell about the daemon only.
  std::size_t connections = 0;
  std::size_t strangers = 0;  // of them, over TCP and without login yet
  std::unordered_set<Peer*> peers = {};
  AllCallMetrics calls = {};
  bool draining = false;
  // In memory. What counts in it may go after this.
  std::shared_ptr<std::size_t> operator_payloads = std::make_shared<std::size_t>(0);
};

constexpr const char* version = TERRACE_VERSION;

}  // namespace terrace::daemon
