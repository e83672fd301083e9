// What operators do.
#pragma once

#include <optional>
#include <span>

#include "cache_daemon/viewer_server.h"

namespace terrace::daemon {

class OperatorServer final : public ViewerServer, public protocol::Operator::Server {
 public:
  using ViewerServer::ViewerServer;
  ~OperatorServer() noexcept(false);

  kj::Promise<void> pin(PinContext call) override;
  kj::Promise<void> unpin(UnpinContext call) override;
  kj::Promise<void> dropSpace(DropSpaceContext call) override;
  kj::Promise<void> evict(EvictContext call) override;
  kj::Promise<void> warm(WarmContext call) override;
  kj::Promise<void> kick(KickContext call) override;
  kj::Promise<void> readBlock(ReadBlockContext call) override;
  kj::Promise<void> importSpace(ImportSpaceContext call) override;
  kj::Promise<void> importBlock(ImportBlockContext call) override;
  kj::Promise<void> verifyBlocks(VerifyBlocksContext call) override;

  DispatchCallResult dispatchCall(
      std::uint64_t interface_id, std::uint16_t method_id,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> call) override {
    // It knows the viewer's methods, too.
    return counted(peer_, context_.config.limits, [&] {
      return protocol::Operator::Server::dispatchCall(interface_id, method_id, call);
    });
  }

 private:
  // Throws as if there were no such block if this login must not touch it.
  void require_block(const BlockKey& key) const;

  kj::Promise<void> load_warm(WarmContext call, storage::SpaceId space,
                              std::span<const BlockKey> keys, Tier into);

  // That warm() holds what it loads with, for as long as that takes.
  std::optional<storage::SessionId> warming_session_;
  storage::LeaseId next_lease_ = 1;
  std::size_t warms_ = 0;  // under way
  // A place among the payloads that all connections may keep.
  class PayloadPlace;
  // Of which not all pieces have been asked for yet.
  std::optional<storage::BlockPayload> last_read_;
  std::shared_ptr<PayloadPlace> last_read_place_;
  // A block of which not all pieces have come yet.
  struct UnfinishedImport;
  std::shared_ptr<UnfinishedImport> import_;
  struct Verification;
  kj::Promise<void> verify_next(std::shared_ptr<Verification> verification);
  bool verifying_ = false;
  std::size_t block_reads_ = 0;  // under way
};

}  // namespace terrace::daemon
