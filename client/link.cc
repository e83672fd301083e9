#include "client/link.h"

#include <fcntl.h>
#include <kj/debug.h>

#include <algorithm>

#include "client/limits.h"
#include "core/secret_file.h"

namespace terrace::client {
namespace {

using OpenedSession = capnp::Response<protocol::Worker::OpenSessionResults>;

kj::Exception failure(const std::string& what) { return connection_failure(what); }

}  // namespace

Status to_status(const kj::Exception& exception) {
  std::string message(exception.getDescription().cStr());
  // What the daemon says is put in front of people as it stands.
  constexpr std::string_view wrapping = "remote exception: ";
  if (message.starts_with(wrapping)) message.erase(0, wrapping.size());
  switch (exception.getType()) {
    case kj::Exception::Type::DISCONNECTED:
      return {StatusCode::unavailable, std::move(message)};
    case kj::Exception::Type::OVERLOADED:
      return {StatusCode::resource_exhausted, std::move(message)};
    case kj::Exception::Type::UNIMPLEMENTED:
      return {StatusCode::unimplemented, std::move(message)};
    case kj::Exception::Type::FAILED:
      break;
  }
  return {StatusCode::internal, std::move(message)};
}

Result<LoginRequest> login_request(protocol::Daemon::Client& daemon, const Identity& identity,
                                   const std::string& client_name) {
  auto request = daemon.loginRequest();
  request.setProtocolVersion(protocol::PROTOCOL_VERSION);
  request.setClientName(client_name);
  if (!identity.token_file.empty()) {
    const auto token = read_secret_file(identity.token_file);
    if (!token) return error(token.error());
    request.setToken(*token);
  }
  return request;
}

kj::Promise<kj::Own<Link>> Link::open(kj::AsyncIoContext& io, const ClientOptions& options,
                                      std::shared_ptr<const SessionArena> earlier) {
  auto opened = open_transport(io, options.socket_path, options.identity)
                    .then([&io, &options, earlier](kj::Own<Transport>&& transport) {
                      auto link = kj::heap<Link>(io, kj::mv(transport));
                      auto done = link->shake_hands(options, earlier);
                      return done.then([link = kj::mv(link)]() mutable { return kj::mv(link); });
                    });
  auto late = io.provider->getTimer()
                  .afterDelay(handshake_limit.count() * kj::SECONDS)
                  .then([]() -> kj::Promise<kj::Own<Link>> {
                    return failure("terraced accepted the connection but does not answer");
                  });
  return opened.exclusiveJoin(kj::mv(late));
}

Link::Link(kj::AsyncIoContext& io, kj::Own<Transport> transport)
    : timer_(io.provider->getTimer()),
      transport_(kj::mv(transport)),
      daemon_(transport_->rpc().bootstrap().castAs<protocol::Daemon>()),
      tasks_(*this) {}

kj::Promise<void> Link::shake_hands(const ClientOptions& options,
                                    std::shared_ptr<const SessionArena> earlier) {
  auto request = login_request(daemon_, options.identity, options.client_name);
  if (!request) return failure(request.error().message());
  return request->send()
      .then(
          [this](auto&& login) -> kj::Promise<OpenedSession> {
            const auto info = login.getInfo();
            boot_id_ = info.getBootId().cStr();
            request_budget_ =
                std::min(std::chrono::milliseconds(info.getRequestBudgetMs()), max_request_budget);
            tenant_names_.own = login.getTenant().cStr();
            for (const auto one : login.getSharing())
              tenant_names_.sharing[one.getTenant().cStr()] = one.getSharedName().cStr();
            return login.getWorker().openSessionRequest().send();
          },
          [](kj::Exception&& e) -> kj::Promise<OpenedSession> {
            if (e.getType() == kj::Exception::Type::UNIMPLEMENTED) return failure(older_daemon);
            return kj::mv(e);
          })
      .then([this, earlier, path = options.payload, importer = options.arena_importer,
             staging_bytes = options.staging_bytes](auto&& opened) -> kj::Promise<void> {
        session_ = opened.getSession();
        auto arena = std::make_shared<SessionArena>();
        arena->boot_id = boot_id_;
        arena->session_id = opened.getSessionId();
        // Where no memory can be shared, staging is as stream.
        if (path != PayloadPath::arena) {
          arena_ = std::move(arena);
          return open_staging(staging_bytes, path == PayloadPath::staging && shares_memory());
        }
        if (!shares_memory()) {
          arena_ = std::move(arena);
          return kj::READY_NOW;
        }
        if (earlier && earlier->boot_id == arena->boot_id) {
          arena->mapping = earlier->mapping;
          arena->imported = earlier->imported;
          arena->claim = earlier->claim;
          attach(std::move(arena));
          return kj::READY_NOW;
        }
        return session_.deviceArenaRequest().send().then([this, arena, importer](
                                                             auto&& answer) -> kj::Promise<void> {
          const bool on_host = answer.getMemory() == protocol::MemoryKind::HOST;
          if (!on_host && !importer)
            return failure(
                "terraced's device arena is the memory of a GPU; this program needs one in "
                "the machine's memory");
          if (on_host && importer)
            return failure(
                "terraced's device arena is the machine's memory; this program computes on a "
                "GPU (device.accelerator)");
          auto capability = answer.getArena();
          auto claim = answer.getClaim();
          const std::uint64_t bytes = answer.getBytes();
          auto descriptor = capability.getFd();
          auto claim_descriptor = claim.getFd();
          // A descriptor closes with its capability: the continuation owns it (attach() would
          // end it before the continuation runs).
          return descriptor
              .then([arena, bytes, importer, uuid = std::string(answer.getDeviceUuid().cStr()),
                     capability = kj::mv(capability), claim_descriptor = kj::mv(claim_descriptor)](
                        kj::Maybe<int> fd) mutable -> kj::Promise<kj::Maybe<int>> {
                if (importer) {
                  auto imported = importer->import(fd.orDefault(-1), bytes, uuid);
                  if (!imported) return failure(imported.error().message());
                  arena->imported = std::move(*imported);
                  return kj::mv(claim_descriptor);
                }
                auto mapping =
                    SharedMapping::map(fd.orDefault(-1), bytes, SharedMapping::Access::read_write);
                if (!mapping) return failure(mapping.error().message());
                arena->mapping = std::make_shared<const SharedMapping>(std::move(*mapping));
                return kj::mv(claim_descriptor);
              })
              .then([this, arena, claim = kj::mv(claim)](kj::Maybe<int> fd) mutable {
                KJ_IF_MAYBE (number, fd) {
                  arena->claim =
                      std::make_shared<const UniqueFd>(::fcntl(*number, F_DUPFD_CLOEXEC, 0));
                }
                // Nobody uses the arena before its head is there: a request in between would
                // share the cores with what touches the pages and fault beside it, and is
                // answered sooner without the cache. Gigabytes are not waited for.
                if (!arena->mapping) {
                  attach(arena);
                  return kj::Promise<void>(kj::READY_NOW);
                }
                return populate_head(arena->mapping, 0).then([this, arena] { attach(arena); });
              });
        });
      });
}

kj::Promise<void> Link::open_staging(std::uint64_t bytes, bool shared) {
  auto request = session_.stagingRequest();
  request.setBytes(bytes);
  request.setShared(shared);
  return request.send().then([this, shared](auto&& answer) -> kj::Promise<void> {
    staging_ = answer.getStaging();
    const std::uint64_t given = answer.getBytes();
    const std::uint32_t max_piece_bytes = answer.getMaxPieceBytes();
    if (given == 0 || max_piece_bytes == 0) return failure("terraced gave no staging region");
    if (!shared) {
      staging_area_ = std::make_shared<StagingArea>(SharedMapping(), given, max_piece_bytes);
      return kj::READY_NOW;
    }
    return staging_.getFd().then([this, given, max_piece_bytes](kj::Maybe<int> fd) {
      auto mapping = SharedMapping::map(fd.orDefault(-1), given, SharedMapping::Access::read_write);
      if (!mapping) kj::throwFatalException(failure(mapping.error().message()));
      staging_area_ = std::make_shared<StagingArea>(std::move(*mapping), given, max_piece_bytes);
    });
  });
}

kj::Promise<void> Link::populate_head(std::shared_ptr<const SharedMapping> mapping,
                                      std::size_t offset) {
  if (offset >= std::min(mapping->size(), populated_head_bytes)) return kj::READY_NOW;
  mapping->populate(offset, populate_piece_bytes);
  // Through the event port, so that a stop gets its turn.
  return timer_.afterDelay(0 * kj::MILLISECONDS).then([this, mapping, offset] {
    return populate_head(mapping, offset + populate_piece_bytes);
  });
}

void Link::attach(std::shared_ptr<const SessionArena> arena) {
  arena_ = std::move(arena);
  if (arena_->mapping)
    population_.emplace(*arena_->mapping, populated_head_bytes, max_populated_bytes);
}

void Link::taskFailed(kj::Exception&&) {
  // Each call answers for its own failure; what is left has nobody who waits for it.
}

}  // namespace terrace::client
