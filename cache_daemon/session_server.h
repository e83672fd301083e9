// A session's capability: arenas and spaces.
#pragma once

#include <memory>

#include "cache_daemon/context.h"
#include "cache_daemon/peer.h"
#include "cache_daemon/session.h"

namespace terrace::daemon {

class SessionServer final : public protocol::Session::Server {
 public:
  SessionServer(Context& context, std::shared_ptr<Peer> peer, std::shared_ptr<Session> session)
      : context_(context), peer_(std::move(peer)), session_(std::move(session)) {}

  kj::Promise<void> deviceArena(DeviceArenaContext call) override;
  kj::Promise<void> hostArena(HostArenaContext call) override;
  kj::Promise<void> openSpace(OpenSpaceContext call) override;
  kj::Promise<void> touchesNothing(TouchesNothingContext call) override;
  kj::Promise<void> staging(StagingContext call) override;

 private:
  Context& context_;
  std::shared_ptr<Peer> peer_;
  std::shared_ptr<Session> session_;
};

}  // namespace terrace::daemon
