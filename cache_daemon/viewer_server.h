// What people and their tools look at: figures and listings.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache_daemon/context.h"
#include "cache_daemon/peer.h"

namespace terrace::daemon {

class ViewerServer : public virtual protocol::Viewer::Server {
 public:
  // Who has logged in with a tenant sees that one's spaces, and nothing of others.
  ViewerServer(Context& context, std::shared_ptr<Peer> peer)
      : context_(context), peer_(std::move(peer)), tenant_(peer_->grant->tenant) {}

  kj::Promise<void> stats(StatsContext call) override;
  kj::Promise<void> listBlocks(ListBlocksContext call) override;
  kj::Promise<void> listSpaces(ListSpacesContext call) override;
  kj::Promise<void> listPins(ListPinsContext call) override;
  kj::Promise<void> inspect(InspectContext call) override;
  kj::Promise<void> explain(ExplainContext call) override;
  kj::Promise<void> sessions(SessionsContext call) override;

  DispatchCallResult dispatchCall(
      std::uint64_t interface_id, std::uint16_t method_id,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> call) override {
    return counted(peer_, context_.config.limits, [&] {
      return protocol::Viewer::Server::dispatchCall(interface_id, method_id, call);
    });
  }

 protected:
  bool may_see_tenant(const std::string& tenant) const { return !tenant_ || tenant == *tenant_; }
  bool may_see_space(const BlockKey& digest) const;
  // Also of a block that is not there: an answer must not tell the one from the other.
  bool may_see_block(const BlockKey& key) const;
  // The space of this digest. Throws as if there were none if it must not be seen.
  storage::SpaceId require_space(const BlockKey& digest) const;

  // Throws as if there were no such session if it must not be seen.
  void require_session(storage::SessionId id) const;

  // Blocks from `from` on that this login may see; where it goes on is one of them, too.
  kj::Promise<void> list_visible(BlockKey from, std::size_t limit,
                                 std::shared_ptr<storage::BlockPage> page);

  // What explain() or warm() was asked, and until when it waits for Redis.
  struct Question {
    storage::SpaceId space = 0;
    std::vector<Token> tokens;
    std::vector<BlockKey> keys;
    std::int64_t redis_deadline_ns = 0;
  };
  // Whether anybody was asked. `known_blocks`: that a match finds by now.
  kj::Promise<bool> ask_redis(std::shared_ptr<const Question> question, std::size_t known_blocks);

  Context& context_;
  std::shared_ptr<Peer> peer_;

 private:
  const std::optional<std::string> tenant_;
};

// The answer to Viewer.stats; docs/protocol.md lists the fields.
std::string stats_json(const Context& context);

}  // namespace terrace::daemon
