// The bootstrap capability of a connection: login, and what comes after it.
#pragma once

#include <memory>

#include "cache_daemon/context.h"
#include "cache_daemon/peer.h"

namespace terrace::daemon {

class LoginServer final : public protocol::Daemon::Server {
 public:
  LoginServer(Context& context, std::shared_ptr<Peer> peer)
      : context_(context), peer_(std::move(peer)) {}

  kj::Promise<void> ping(PingContext call) override;
  kj::Promise<void> info(InfoContext call) override;
  kj::Promise<void> login(LoginContext call) override;
  kj::Promise<void> openSessionBefore3(OpenSessionBefore3Context call) override;
  kj::Promise<void> openOperatorBefore3(OpenOperatorBefore3Context call) override;

 private:
  // Tells the reason after a pause, so that guessing takes time.
  kj::Promise<void> refuse(const Status& why);

  Context& context_;
  std::shared_ptr<Peer> peer_;
};

}  // namespace terrace::daemon
