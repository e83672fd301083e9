// The tier that other hosts share, on a Redis (or Valkey) or a Redis Cluster: one thread with
// non-blocking sockets. docs/redis.md says what lies there under which key.
#pragma once

#include <memory>

#include "core/clock.h"
#include "storage/redis/redis_options.h"
#include "storage/redis/remote_tier.h"

namespace terrace::storage {

namespace redis {
class Engine;
}

class RedisStore final : public RemoteTier {
 public:
  // Begins to connect, and does not wait for it: a server that is not there comes later.
  // invalid_argument for options that make no sense, io_error if a certificate, a key or the
  // authorities cannot be read or the system gives no descriptors. A null clock is the system's.
  static Result<std::unique_ptr<RedisStore>> open(const RedisOptions& options,
                                                  std::shared_ptr<const Clock> clock = nullptr);
  // Closes the connections; what is under way is dropped without a completion, and no memory of a
  // request is touched any more.
  ~RedisStore() override;

  void add_space(const SpaceDescriptor& space) override;
  bool available() const override;
  void lookup(RemoteLookup request) override;
  void read(RemoteRead request) override;
  void write(RemoteWrite request) override;
  void erase(const BlockKey& space, std::span<const BlockKey> keys) override;
  void erase_space(RemoteEraseSpace request) override;
  void take_completions(std::vector<RemoteCompletion>& out) override;
  void set_notify(std::function<void()> notify) override;
  RemoteUsage usage() const override;

 private:
  explicit RedisStore(std::unique_ptr<redis::Engine> engine);

  std::unique_ptr<redis::Engine> engine_;
};

}  // namespace terrace::storage
