#include "cache_daemon/session_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace terrace::daemon {

SessionTable::SessionTable(storage::TieredCache& cache, const config::DaemonLimits& limits)
    : cache_(cache), limits_(limits), watches_(*this) {}

Result<std::shared_ptr<Session>> SessionTable::open(std::shared_ptr<PeerProcess> peer,
                                                    std::string client_name,
                                                    std::optional<std::string> tenant,
                                                    std::function<void()> cut) {
  if (entries_.size() >= limits_.max_sessions)
    return error(StatusCode::resource_exhausted,
                 "limits.max_sessions = " + std::to_string(limits_.max_sessions) + ": found " +
                     std::to_string(entries_.size() + 1) + " sessions");
  if (!peer->can_be_watched())
    return error(StatusCode::resource_exhausted, "the daemon could not watch process " +
                                                     std::to_string(peer->pid()) +
                                                     "; it may be out of descriptors");
  auto session =
      std::make_shared<Session>(cache_, std::move(client_name), std::move(tenant), limits_);
  const storage::SessionId id = session->id();
  // The watch is dropped, and so fails, with the session's entry. Of what nothing can be told of,
  // it would stay for ever.
  if (peer->pid() > 0)
    watches_.add(peer->when_ended().then([this, id] { end(id, "its process has ended"); },
                                         [](kj::Exception&&) {}));
  spdlog::info("session {} of {} (pid {}) opened", id, session->client_name(), peer->pid());
  entries_.emplace(id, Entry{session, std::move(peer), std::move(cut)});
  return session;
}

void SessionTable::connection_lost(storage::SessionId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  found->second.cut = nullptr;
  if (!found->second.peer->alive()) return end(id, "its process has ended");
  // Kept for nothing, the sessions of a client whose handshakes fail again and again would lock
  // everybody out.
  if (!found->second.session->holds_anything() || !found->second.peer->shares_memory())
    return end(id, "its connection is gone");
  found->second.session->abandon();
  spdlog::info("session {} lost its connection; its slots are quarantined while pid {} lives", id,
               found->second.peer->pid());
}

void SessionTable::touches_nothing(const PeerProcess& peer,
                                   std::span<const storage::SessionId> ids) {
  for (const storage::SessionId id : ids) {
    const auto found = entries_.find(id);
    if (found == entries_.end() || !found->second.peer->is_same_process(peer)) continue;
    end(id, "its process touches nothing of it any more");
  }
}

std::vector<SessionTable::Listed> SessionTable::list() const {
  std::vector<Listed> list;
  for (const auto& [id, entry] : entries_)
    list.push_back({id, entry.session->client_name(), entry.session->tenant(), entry.peer->pid(),
                    entry.cut != nullptr, entry.session->leases(), entry.session->blocks()});
  std::ranges::sort(list, {}, &Listed::id);
  return list;
}

Status SessionTable::kick(storage::SessionId id) {
  const auto found = entries_.find(id);
  if (found == entries_.end())
    return Status(StatusCode::not_found, "there is no session " + std::to_string(id));
  if (!found->second.cut)
    return Status(StatusCode::failed_precondition,
                  "session " + std::to_string(id) +
                      " has lost its connection already; what it holds "
                      "is free when process " +
                      std::to_string(found->second.peer->pid()) + " ends");
  spdlog::info("session {} is cut on an operator's word", id);
  found->second.cut();
  return {};
}

void SessionTable::end(storage::SessionId id, const char* why) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  entry.session->end();
  if (entry.cut) entry.cut();
  spdlog::info("session {} ended: {}", id, why);
}

void SessionTable::taskFailed(kj::Exception&& exception) {
  spdlog::error("watching a client's process failed: {}", exception.getDescription().cStr());
}

}  // namespace terrace::daemon
