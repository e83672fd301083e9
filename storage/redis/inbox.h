// What other threads hand to the thread of a RedisStore.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "core/unique_fd.h"
#include "storage/redis/remote_tier.h"
#include "storage/redis/resolver.h"

namespace terrace::storage::redis {

struct EraseRequest {
  BlockKey space;
  std::vector<BlockKey> keys;
};
// A name was looked up.
struct Resolved {
  RedisEndpoint endpoint;
  Result<Addresses> addresses;
};
struct Stop {};
using Message = std::variant<SpaceDescriptor, RemoteLookup, RemoteRead, RemoteWrite, EraseRequest,
                             RemoteEraseSpace, Resolved, Stop>;

class Inbox {
 public:
  // Negative if the system gave no descriptor. Readable when there are messages.
  int fd() const { return fd_.get(); }

  // Any thread.
  void push(Message message) {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = messages_.empty();
      messages_.push_back(std::move(message));
    }
    if (!first) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
  }

  // The thread of the store.
  std::vector<Message> take() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t bytes = ::read(fd_.get(), &count, sizeof count);
    const std::lock_guard lock(mutex_);
    return std::exchange(messages_, {});
  }

 private:
  const UniqueFd fd_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::mutex mutex_;
  std::vector<Message> messages_;
};

}  // namespace terrace::storage::redis
