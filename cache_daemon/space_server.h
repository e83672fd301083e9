// The blocks of one space, as one session sees them.
#pragma once

#include <memory>

#include "cache_daemon/context.h"
#include "cache_daemon/peer.h"
#include "cache_daemon/session.h"

namespace terrace::daemon {

class SpaceServer final : public protocol::Space::Server {
 public:
  SpaceServer(Context& context, std::shared_ptr<Peer> peer, std::shared_ptr<Session> session,
              storage::SpaceId space)
      : context_(context), peer_(std::move(peer)), session_(std::move(session)), space_(space) {}

  kj::Promise<void> match(MatchContext call) override;
  kj::Promise<void> acquire(AcquireContext call) override;
  kj::Promise<void> reserve(ReserveContext call) override;
  kj::Promise<void> seal(SealContext call) override;
  kj::Promise<void> release(ReleaseContext call) override;
  // space_transfers.cc
  kj::Promise<void> put(PutContext call) override;
  kj::Promise<void> get(GetContext call) override;

  DispatchCallResult dispatchCall(
      std::uint64_t interface_id, std::uint16_t method_id,
      capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> call) override;

 private:
  // The keys of a call, within its limit.
  std::span<const BlockKey> read_keys(capnp::Data::Reader data) const;
  // One piece of the staging region an offset, each of a block's size.
  std::vector<std::span<std::byte>> read_offsets(capnp::Data::Reader data) const;
  // Until when an acquire or a get with this budget waits for Redis.
  std::int64_t redis_load_deadline_ns(std::uint32_t budget_ms) const;
  // Whether the log is to have a line about it.
  bool is_slow(const CallTimer& timer) const;
  void tell_slow_match(const CallTimer& timer, std::size_t keys, std::int64_t redis_ns) const;
  // `times`: what it waited for, if the log is to have slow ones.
  void answer_acquire(AcquireContext& call, CallTimer& timer,
                      std::span<const storage::AcquiredBlock> blocks,
                      const storage::AcquireTimes* times) const;
  static void answer_match(MatchContext& call, const storage::MatchResult& found);

  // Tokens of a call, within their limit.
  std::span<const Token> read_tokens(capnp::Data::Reader data) const;

  Context& context_;
  std::shared_ptr<Peer> peer_;
  std::shared_ptr<Session> session_;
  storage::SpaceId space_;
};

}  // namespace terrace::daemon
