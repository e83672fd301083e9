// One connection to terraced with its session and arena. Lives on the connection's thread.
#pragma once

#include <kj/async-io.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "client/client.h"
#include "client/connection_state.h"
#include "client/session_arena.h"
#include "client/staging_area.h"
#include "client/transport.h"
#include "core/background_population.h"
#include "core/status.h"
#include "protocol/terrace.capnp.h"

namespace terrace::client {

// What went wrong with a call.
Status to_status(const kj::Exception& exception);

using LoginRequest = capnp::Request<protocol::Daemon::LoginParams, protocol::Daemon::LoginResults>;
// With the token that `identity` names, or what reading its file failed with.
Result<LoginRequest> login_request(protocol::Daemon::Client& daemon, const Identity& identity,
                                   const std::string& client_name);

// What to say where login is not known.
constexpr const char* older_daemon =
    "terraced is older than this program and speaks another version of the protocol";

class Link final : private kj::TaskSet::ErrorHandler {
 public:
  // `options` must outlive the promise. Connects, opens a session, maps the arena and populates its
  // head; the rest follows in the background. With another payload than the arena there is a staging
  // region instead. `earlier`, if there is one, is the arena of the session before: its mapping is
  // taken over where the daemon is still the same. Fails with a kj::Exception whose description is
  // for people.
  static kj::Promise<kj::Own<Link>> open(kj::AsyncIoContext& io, const ClientOptions& options,
                                         std::shared_ptr<const SessionArena> earlier);

  Link(kj::AsyncIoContext& io, kj::Own<Transport> transport);
  ~Link() = default;
  KJ_DISALLOW_COPY(Link);

  // Resolves when the connection is lost.
  kj::Promise<void> when_lost() { return transport_->rpc().onDisconnect(); }

  bool shares_memory() const { return transport_->shares_memory(); }
  protocol::Daemon::Client& daemon() { return daemon_; }
  protocol::Session::Client& session() { return session_; }
  // Its mapping is null where memory is not shared, and where there is a staging region.
  const std::shared_ptr<const SessionArena>& arena() const { return arena_; }
  // Null where there is none; its payload goes through staging() if it has no mapping.
  const std::shared_ptr<StagingArea>& staging_area() const { return staging_area_; }
  protocol::Staging::Client& staging() { return staging_; }
  std::chrono::milliseconds request_budget() const { return request_budget_; }
  const TenantNames& tenant_names() const { return tenant_names_; }
  kj::Timer& timer() { return timer_; }

  // Runs a promise to its end, or drops it with the link.
  void add(kj::Promise<void> task) { tasks_.add(kj::mv(task)); }

 private:
  kj::Promise<void> shake_hands(const ClientOptions& options,
                                std::shared_ptr<const SessionArena> earlier);
  kj::Promise<void> open_staging(std::uint64_t bytes, bool shared);
  kj::Promise<void> populate_head(std::shared_ptr<const SharedMapping> mapping, std::size_t offset);
  // Takes the arena into use, and populates the rest of it in the background.
  void attach(std::shared_ptr<const SessionArena> arena);
  void taskFailed(kj::Exception&& exception) override;

  kj::Timer& timer_;
  kj::Own<Transport> transport_;
  protocol::Daemon::Client daemon_;
  protocol::Session::Client session_ = nullptr;
  protocol::Staging::Client staging_ = nullptr;
  std::shared_ptr<StagingArea> staging_area_;
  std::shared_ptr<const SessionArena> arena_;
  std::optional<BackgroundPopulation> population_;  // of the arena's mapping
  std::chrono::milliseconds request_budget_{};
  std::string boot_id_;
  TenantNames tenant_names_;
  kj::TaskSet tasks_;
};

}  // namespace terrace::client
