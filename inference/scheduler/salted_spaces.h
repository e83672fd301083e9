// The blocks of requests with different salts have different names, so that nobody can find out by
// the time of an answer what somebody with another salt asked.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "client/client.h"
#include "core/block_key.h"
#include "inference/worker/engine.h"

namespace terrace::inference {

// Salts that have a space of their own at the daemon, which keeps each for as long as it runs and
// allows a session 64. Requests with further ones share blocks in this process only.
constexpr std::size_t max_salted_spaces = 48;

// Where the prefixes of a request begin.
struct PrefixRoot {
  client::Space* space = nullptr;  // null: not in the daemon
  BlockKey key;
};

class SaltedSpaces {
 public:
  // `engine` must outlive it.
  explicit SaltedSpaces(Engine& engine) : engine_(engine) {}

  // An empty salt is no salt. The space lives as long as this object. Any thread.
  PrefixRoot root_of(const std::string& salt);

 private:
  Engine& engine_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<client::Space>> spaces_;
};

}  // namespace terrace::inference
