#include "storage/redis/redis_store.h"

#include <sys/epoll.h>

#include <utility>

#include "storage/redis/engine.h"

namespace terrace::storage {

Result<std::unique_ptr<RedisStore>> RedisStore::open(const RedisOptions& options,
                                                     std::shared_ptr<const Clock> clock) {
  if (Status valid = validate(options); !valid.ok()) return error(std::move(valid));
  std::unique_ptr<redis::TlsContext> tls;
  if (options.tls.enabled) {
    auto made = redis::make_tls_context(options.tls);
    if (!made) return error(made.error());
    tls = std::move(*made);
  }
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return error(errno_status(errno, "cannot make an epoll instance"));
  auto inbox = std::make_shared<redis::Inbox>();
  if (inbox->fd() < 0) return error(errno_status(errno, "cannot make an eventfd"));
  if (!clock) clock = std::make_shared<SystemClock>();
  auto engine = std::make_unique<redis::Engine>(options, std::move(clock), std::move(tls),
                                                std::move(epoll), std::move(inbox));
  return std::unique_ptr<RedisStore>(new RedisStore(std::move(engine)));
}

RedisStore::RedisStore(std::unique_ptr<redis::Engine> engine) : engine_(std::move(engine)) {}

RedisStore::~RedisStore() = default;

void RedisStore::add_space(const SpaceDescriptor& space) { engine_->push(space); }
bool RedisStore::available() const { return engine_->available(); }
void RedisStore::lookup(RemoteLookup request) { engine_->push(std::move(request)); }
void RedisStore::read(RemoteRead request) { engine_->push(std::move(request)); }
void RedisStore::write(RemoteWrite request) { engine_->push(std::move(request)); }
void RedisStore::erase(const BlockKey& space, std::span<const BlockKey> keys) {
  engine_->push(redis::EraseRequest{space, {keys.begin(), keys.end()}});
}
void RedisStore::erase_space(RemoteEraseSpace request) { engine_->push(std::move(request)); }
void RedisStore::take_completions(std::vector<RemoteCompletion>& out) {
  engine_->take_completions(out);
}
void RedisStore::set_notify(std::function<void()> notify) {
  engine_->set_notify(std::move(notify));
}
RemoteUsage RedisStore::usage() const { return engine_->usage(); }

}  // namespace terrace::storage
