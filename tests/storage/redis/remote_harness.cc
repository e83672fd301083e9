#include "tests/storage/redis/remote_harness.h"

#include <cstring>

#include "core/record.h"

namespace terrace::storage {

using test_support::RedisCluster;

RedisOptions options_for(std::uint16_t port) {
  RedisOptions options;
  options.endpoints = {{"127.0.0.1", port}};
  options.connect_timeout_ms = 10'000;
  options.request_timeout_ms = 10'000;
  options.breaker_open_ms = 20;
  options.breaker_max_open_ms = 100;
  options.write_pause_ms = 20;
  options.negative_ttl_ms = 0;
  return options;
}

RedisOptions options_for(RedisCluster& cluster) {
  RedisOptions options = options_for(cluster.node(1).port());
  options.mode = RedisMode::cluster;
  for (const std::size_t other : {std::size_t{2}, RedisCluster::masters + 1})
    options.endpoints.push_back({"127.0.0.1", cluster.node(other).port()});
  return options;
}

std::string value_name(const TestBlock& block, const std::string& prefix) {
  return prefix + ":" + std::to_string(record_version) + ":" + block.space.hex() + ":" +
         block.key.hex();
}

std::string value_of(const TestBlock& block) {
  RecordHeader header;
  header.space = block.space;
  header.key = block.key;
  header.parent = block.parent;
  header.tokens = block.tokens;
  header.payload_bytes = header.stored_bytes = block.bytes;
  header.payload_checksum = header.stored_checksum = payload_checksum(block.payload());
  std::string value(record_header_bytes, '\0');
  EXPECT_EQ(encode_record_header(header, std::as_writable_bytes(std::span(value))).to_string(),
            "ok");
  value.append(reinterpret_cast<const char*>(block.payload().data()), block.bytes);
  return value;
}

std::vector<TestBlock> chain(std::size_t count, std::size_t bytes, std::uint64_t seed) {
  std::vector<TestBlock> blocks;
  blocks.push_back(test_block(test_space(bytes), seed, bytes));
  while (blocks.size() < count) blocks.push_back(test_child(blocks.back(), ++seed, bytes));
  return blocks;
}

RemoteHarness::RemoteHarness(const RedisOptions& options, std::shared_ptr<const Clock> clock) {
  auto store = RedisStore::open(options, std::move(clock));
  if (!store) {
    ADD_FAILURE() << "open: " << store.error().to_string();
    std::abort();
  }
  store_ = std::move(*store);
  store_->set_notify([signal = signal_] {
    {
      const std::lock_guard lock(signal->mutex);
      signal->set = true;
    }
    signal->changed.notify_all();
  });
}

RemoteCompletion RemoteHarness::wait(Ticket ticket) {
  for (;;) {
    std::vector<RemoteCompletion> arrived;
    store_->take_completions(arrived);
    for (RemoteCompletion& one : arrived) {
      EXPECT_FALSE(completed_.contains(one.ticket)) << "completed twice";
      completed_[one.ticket] = std::move(one);
    }
    if (const auto at = completed_.find(ticket); at != completed_.end()) {
      RemoteCompletion completion = std::move(at->second);
      completed_.erase(at);
      return completion;
    }
    std::unique_lock lock(signal_->mutex);
    signal_->changed.wait(lock, [this] { return signal_->set; });
    signal_->set = false;
  }
}

std::int64_t RemoteHarness::deadline_ns(std::int64_t budget_ms) const {
  return budget_ms == 0 ? 0 : SystemClock().monotonic_ns() + budget_ms * 1'000'000;
}

Ticket RemoteHarness::start_write(const TestBlock& block) {
  const Ticket ticket = next_ticket();
  SpaceDescriptor space = test_space(block.bytes);
  store_->add_space(space);
  store_->write({ticket, block.space, block.key, block.parent, block.tokens, block.payload(),
                 payload_checksum(block.payload())});
  return ticket;
}

Ticket RemoteHarness::start_read(const TestBlock& block, AlignedBuffer& destination,
                                 std::int64_t budget_ms) {
  const Ticket ticket = next_ticket();
  store_->add_space(test_space(block.bytes));
  destination.ensure(block.bytes);
  store_->read({ticket, block.space, block.key, block.parent, block.tokens,
                destination.span().first(block.bytes), deadline_ns(budget_ms)});
  return ticket;
}

Ticket RemoteHarness::start_lookup(const std::vector<TestBlock>& blocks, std::int64_t budget_ms) {
  const Ticket ticket = next_ticket();
  RemoteLookup lookup{ticket, blocks.front().space, {}, deadline_ns(budget_ms)};
  for (const TestBlock& block : blocks) lookup.keys.push_back(block.key);
  store_->lookup(std::move(lookup));
  return ticket;
}

RemoteCompletion RemoteHarness::write(const TestBlock& block) { return wait(start_write(block)); }

RemoteCompletion RemoteHarness::lookup(const std::vector<TestBlock>& blocks,
                                       std::int64_t budget_ms) {
  return wait(start_lookup(blocks, budget_ms));
}

RemoteCompletion RemoteHarness::read(const TestBlock& block, std::int64_t budget_ms) {
  AlignedBuffer destination;
  const RemoteCompletion completion = wait(start_read(block, destination, budget_ms));
  if (completion.status.ok()) {
    EXPECT_EQ(std::memcmp(destination.data(), block.payload().data(), block.bytes), 0)
        << "wrong bytes";
    EXPECT_EQ(completion.payload_checksum, payload_checksum(block.payload()));
    EXPECT_EQ(completion.stored_bytes, block.bytes + record_header_bytes);
  }
  return completion;
}

void RemoteHarness::erase(const TestBlock& block) {
  store_->erase(block.space, std::span(&block.key, 1));
}

RemoteCompletion RemoteHarness::erase_space(const BlockKey& space) {
  const Ticket ticket = next_ticket();
  store_->erase_space({ticket, space});
  return wait(ticket);
}

bool RemoteHarness::wait_available(bool available) {
  return test_support::wait_until([&] { return store_->available() == available; });
}

}  // namespace terrace::storage
