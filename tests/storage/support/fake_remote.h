// A tier that other hosts share, in memory, whose requests are completed when a test says so, in
// the order that it says, and fail when it says. It touches bytes at the completion, the latest
// moment allowed. What is there lies in FakeRemoteContents, which outlives the cache and may be
// that of several.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "storage/redis/remote_tier.h"

namespace terrace::storage {

struct FakeRemoteValue {
  BlockKey space, parent;
  std::vector<Token> tokens;
  std::vector<std::byte> payload;
  std::uint64_t checksum = 0;
  std::int64_t created_unix_ms = 0;
  std::int64_t max_ttl_ms = 0;
};

struct FakeRemoteContents {
  std::map<BlockKey, FakeRemoteValue> values;
};

class FakeRemote final : public RemoteTier {
 public:
  enum class Kind { lookup, read, write, erase_space };
  struct Request {
    Kind kind = Kind::lookup;
    RemoteLookup lookup;
    RemoteRead read;
    RemoteWrite write;
    RemoteEraseSpace erase_space;
    Ticket ticket() const;
    BlockKey space() const;
    std::int64_t deadline_ns() const;  // of questions and reads only
  };

  explicit FakeRemote(FakeRemoteContents& contents) : contents_(contents) {}

  void add_space(const SpaceDescriptor& space) override { spaces_.push_back(space.digest()); }
  bool available() const override { return breaker_ != Breaker::open; }
  void lookup(RemoteLookup request) override;
  void read(RemoteRead request) override;
  void write(RemoteWrite request) override;
  void erase(const BlockKey& space, std::span<const BlockKey> keys) override;
  void erase_space(RemoteEraseSpace request) override;
  void take_completions(std::vector<RemoteCompletion>& out) override;
  void set_notify(std::function<void()> notify) override { notify_ = std::move(notify); }
  RemoteUsage usage() const override;

  void set_breaker(Breaker breaker) { breaker_ = breaker; }
  const std::deque<Request>& under_way() const { return requests_; }
  std::size_t lookups() const { return lookups_; }
  std::size_t reads() const { return reads_; }
  std::size_t writes() const { return writes_; }
  std::size_t erased() const { return erased_; }

  // Completes one request: as it should, or with `failure` and without any effect.
  void complete(std::size_t which, const Status& failure = {});
  // Completes those whose deadline is over, as it must.
  void expire(std::int64_t now_ns);

 private:
  Status carry_out(Request& request, RemoteCompletion& completion);
  void add(Request request);

  FakeRemoteContents& contents_;
  std::vector<BlockKey> spaces_;
  Breaker breaker_ = Breaker::closed;
  std::deque<Request> requests_;
  std::vector<RemoteCompletion> completions_;
  std::function<void()> notify_;
  std::size_t lookups_ = 0, reads_ = 0, writes_ = 0, erased_ = 0;
};

}  // namespace terrace::storage
