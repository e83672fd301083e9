// All sessions: those with a connection, and those whose process lives on without one.
#pragma once

#include <kj/async.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache_daemon/peer_process.h"
#include "cache_daemon/session.h"

namespace terrace::daemon {

class SessionTable final : private kj::TaskSet::ErrorHandler {
 public:
  // The limits outlive it.
  SessionTable(storage::TieredCache& cache, const config::DaemonLimits& limits);

  // `cut` ends the connection, some time later; called when the process ends or disowns the session
  // while the connection stands. resource_exhausted at the limit, and for a process that cannot be
  // watched.
  Result<std::shared_ptr<Session>> open(std::shared_ptr<PeerProcess> peer, std::string client_name,
                                        std::optional<std::string> tenant,
                                        std::function<void()> cut);

  // The session's connection is gone. It ends at once if it holds nothing or its process is gone
  // too; else what it holds is quarantined until then.
  void connection_lost(storage::SessionId id);

  // `peer` says that it touches nothing of these sessions any more. Those of other processes are
  // left alone.
  void touches_nothing(const PeerProcess& peer, std::span<const storage::SessionId> ids);

  std::size_t size() const { return entries_.size(); }

  struct Listed {
    storage::SessionId id = 0;
    std::string client_name;
    std::optional<std::string> tenant;
    pid_t pid = 0;  // 0: of another pid namespace
    bool connected = false;
    std::size_t leases = 0, blocks = 0;
  };
  // In the order of their ids.
  std::vector<Listed> list() const;
  // Cuts the connection of a session; connection_lost() follows. not_found for no such session,
  // failed_precondition for one without a connection: its process may still touch what it holds.
  Status kick(storage::SessionId id);

 private:
  struct Entry {
    std::shared_ptr<Session> session;
    std::shared_ptr<PeerProcess> peer;
    std::function<void()> cut;  // empty once the connection is gone
  };

  void end(storage::SessionId id, const char* why);
  void taskFailed(kj::Exception&& exception) override;

  storage::TieredCache& cache_;
  const config::DaemonLimits& limits_;
  std::unordered_map<storage::SessionId, Entry> entries_;
  kj::TaskSet watches_;
};

}  // namespace terrace::daemon
