// A RedisStore driven by a test one request at a time, or by many.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "storage/redis/redis_store.h"
#include "tests/storage/disk/store_harness.h"
#include "tests/support/redis_server.h"

namespace terrace::storage {

// Of one server on this machine; long timeouts, so that a slow machine fails nothing, and short
// rests, so that what comes back is seen soon.
RedisOptions options_for(std::uint16_t port);
// The same of a cluster, any of whose nodes tells about the others: two masters and a replica.
RedisOptions options_for(test_support::RedisCluster& cluster);

// Under which name the block lies at a server.
std::string value_name(const TestBlock& block, const std::string& prefix = "terrace");
// What lies there when it is well.
std::string value_of(const TestBlock& block);

// A prefix of `count` blocks.
std::vector<TestBlock> chain(std::size_t count, std::size_t bytes, std::uint64_t seed = 1);

class RemoteHarness {
 public:
  // The test fails if it does not open. A null clock is the system's.
  explicit RemoteHarness(const RedisOptions& options, std::shared_ptr<const Clock> clock = nullptr);

  RedisStore& store() { return *store_; }
  Ticket next_ticket() { return ++last_ticket_; }
  RemoteCompletion wait(Ticket ticket);

  // Each makes its request and waits for the completion.
  RemoteCompletion write(const TestBlock& block);
  RemoteCompletion lookup(const std::vector<TestBlock>& blocks, std::int64_t budget_ms = 0);
  // Reads the block; if that succeeds its bytes are compared.
  RemoteCompletion read(const TestBlock& block, std::int64_t budget_ms = 0);
  void erase(const TestBlock& block);
  RemoteCompletion erase_space(const BlockKey& space);

  // The same, started only.
  Ticket start_write(const TestBlock& block);
  Ticket start_read(const TestBlock& block, AlignedBuffer& destination, std::int64_t budget_ms = 0);
  Ticket start_lookup(const std::vector<TestBlock>& blocks, std::int64_t budget_ms = 0);

  // Waits until the store is asked, or is not.
  bool wait_available(bool available = true);
  void close() { store_.reset(); }

 private:
  struct Signal {
    std::mutex mutex;
    std::condition_variable changed;
    bool set = false;
  };
  std::int64_t deadline_ns(std::int64_t budget_ms) const;

  std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::map<Ticket, RemoteCompletion> completed_;
  Ticket last_ticket_ = 0;
  std::unique_ptr<RedisStore> store_;
};

}  // namespace terrace::storage
