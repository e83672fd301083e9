#include "cache_daemon/session_server.h"

#include <kj/debug.h>

#include <algorithm>
#include <cstring>

#include "cache_daemon/limits.h"
#include "cache_daemon/space_server.h"
#include "protocol/descriptor.h"
#include "protocol/packed.h"

namespace terrace::daemon {
namespace {

// The descriptor stays the cache's; sending the capability duplicates it into the client.
class ArenaServer final : public protocol::Arena::Server {
 public:
  ArenaServer(int fd, std::uint64_t bytes) : fd_(fd), bytes_(bytes) {}

  kj::Maybe<int> getFd() override { return fd_; }
  kj::Promise<void> bytes(BytesContext call) override {
    call.getResults().setBytes(bytes_);
    return kj::READY_NOW;
  }

 private:
  int fd_;
  std::uint64_t bytes_;
};

class ClaimServer final : public protocol::Claim::Server {
 public:
  explicit ClaimServer(int fd) : fd_(fd) {}
  kj::Maybe<int> getFd() override {
    if (fd_ < 0) return nullptr;
    return fd_;
  }

 private:
  int fd_;
};

class StagingServer final : public protocol::Staging::Server {
 public:
  StagingServer(std::shared_ptr<StagingRegion> region, bool shared, std::size_t piece_limit_bytes)
      : region_(std::move(region)), shared_(shared), max_piece_bytes_(piece_limit_bytes) {}

  kj::Maybe<int> getFd() override {
    if (!shared_) return nullptr;
    return region_->fd();
  }
  kj::Promise<void> write(WriteContext call) override {
    const auto data = call.getParams().getData();
    const auto piece = find_piece(call.getParams().getOffset(), data.size());
    if (data.size() > 0) std::memcpy(piece.data(), data.begin(), data.size());
    return kj::READY_NOW;
  }
  kj::Promise<void> read(ReadContext call) override {
    const auto piece = find_piece(call.getParams().getOffset(), call.getParams().getBytes());
    constexpr std::size_t words_around_data = 8;
    auto results = call.getResults(
        capnp::MessageSize{piece.size() / sizeof(capnp::word) + words_around_data, 0});
    results.setData(protocol::pack(std::span<const std::byte>(piece)));
    return kj::READY_NOW;
  }

 private:
  std::span<std::byte> find_piece(std::uint64_t offset, std::size_t bytes) const {
    KJ_REQUIRE(bytes <= max_piece_bytes_, "too large a piece of the staging region", bytes);
    const auto piece = region_->find(offset, bytes);
    KJ_REQUIRE(piece.has_value(), "this does not lie in the staging region", offset, bytes);
    return *piece;
  }

  std::shared_ptr<StagingRegion> region_;
  bool shared_;
  std::size_t max_piece_bytes_;
};

}  // namespace

kj::Promise<void> SessionServer::deviceArena(DeviceArenaContext call) {
  require_shared_memory(*peer_);
  KJ_REQUIRE(call.getParams().getDeviceIndex() == 0, "there is no device of this index");
  const std::uint64_t bytes = context_.cache.device_arena_bytes();
  auto results = call.getResults();
  results.setArena(kj::heap<ArenaServer>(context_.cache.device_arena_fd(), bytes));
  results.setBytes(bytes);
  results.setClaim(kj::heap<ClaimServer>(context_.device.claim_fd()));
  results.setMemory(context_.device.host_accessible() ? protocol::MemoryKind::HOST
                                                      : protocol::MemoryKind::CUDA);
  results.setDeviceUuid(context_.device.device_uuid());
  return kj::READY_NOW;
}

kj::Promise<void> SessionServer::hostArena(HostArenaContext call) {
  require_shared_memory(*peer_);
  const std::uint64_t bytes = context_.cache.host_arena_bytes();
  if (bytes == 0) return kj::READY_NOW;
  auto results = call.getResults();
  results.setArena(kj::heap<ArenaServer>(context_.cache.host_arena_fd(), bytes));
  results.setBytes(bytes);
  return kj::READY_NOW;
}

kj::Promise<void> SessionServer::openSpace(OpenSpaceContext call) {
  auto descriptor = protocol::read_descriptor(call.getParams().getDescriptor());
  KJ_REQUIRE(descriptor.has_value(), descriptor.error().message().c_str());
  descriptor->tenant = session_->tenant().value_or(context_.access.shared_name(descriptor->tenant));
  session_->admit_space(descriptor->digest());
  const storage::SpaceId space =
      open_space_for(context_.cache, *descriptor, session_->tenant(), context_.config.limits);
  auto results = call.getResults();
  results.setSpace(kj::heap<SpaceServer>(context_, peer_, session_, space));
  results.setDigest(protocol::pack(descriptor->digest()));
  return kj::READY_NOW;
}

kj::Promise<void> SessionServer::touchesNothing(TouchesNothingContext call) {
  const auto list = call.getParams().getSessionIds();
  KJ_REQUIRE(list.size() <= max_sessions_per_call, "too many sessions", list.size());
  std::vector<storage::SessionId> ids;
  for (const std::uint64_t id : list) ids.push_back(id);
  context_.sessions.touches_nothing(*peer_->process, ids);
  return kj::READY_NOW;
}

kj::Promise<void> SessionServer::staging(StagingContext call) {
  const config::DaemonLimits& limits = context_.config.limits;
  // Half a message is for what is not payload.
  const std::size_t piece_limit_bytes =
      std::min<std::size_t>(max_staging_piece_bytes, limits.max_message_bytes / 2);
  auto region =
      session_->open_staging(call.getParams().getBytes(), limits.staging_per_session_bytes);
  auto results = call.getResults();
  results.setBytes(region->size());
  results.setMaxPieceBytes(static_cast<std::uint32_t>(piece_limit_bytes));
  results.setStaging(
      kj::heap<StagingServer>(std::move(region), call.getParams().getShared(), piece_limit_bytes));
  return kj::READY_NOW;
}

}  // namespace terrace::daemon
