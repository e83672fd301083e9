// One of the clients of `terrace-bench load`: a connection with a session, one call at a time.
#pragma once

#include <kj/async.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/load_prompts.h"
#include "bench/samples.h"
#include "client/link.h"

namespace terrace::bench {

enum class LoadCall : std::size_t { match, acquire, reserve, seal, release };
constexpr std::size_t load_calls = 5;

// How large the messages of a kind of call are, on the average of all calls so far.
struct CallSizes {
  std::uint64_t calls = 0, request_bytes = 0, reply_bytes = 0;

  void add(std::uint64_t request, std::uint64_t reply) {
    ++calls;
    request_bytes += request;
    reply_bytes += reply;
  }
  void add(const CallSizes& other) {
    calls += other.calls;
    request_bytes += other.request_bytes;
    reply_bytes += other.reply_bytes;
  }
  std::uint64_t mean_request() const { return calls == 0 ? 0 : request_bytes / calls; }
  std::uint64_t mean_reply() const { return calls == 0 ? 0 : reply_bytes / calls; }
};

// What all clients of one phase counted together. Single-threaded, as are the clients.
struct LoadFigures {
  std::uint64_t requests = 0;
  Samples latency_us;
  std::array<Samples, load_calls> latency_us_by_call;
  std::array<CallSizes, load_calls> sizes;  // of the mix
  std::uint64_t sealed_blocks = 0;
  std::uint64_t matched_blocks = 0, asked_blocks = 0;
  std::uint64_t verified_blocks = 0;
  std::uint64_t short_reservations = 0;  // the arena had no room
  std::uint64_t errors = 0;
  std::string first_error;

  void fail(const std::string& what) {
    if (errors++ == 0) first_error = what;
  }
};

class LoadClient {
 public:
  using Clock = std::chrono::steady_clock;

  // `prompts` are shared by all clients, and outlive them.
  LoadClient(kj::Own<client::Link> link, LoadPrompts& prompts)
      : link_(kj::mv(link)), prompts_(prompts) {}

  const client::Link& link() const { return *link_; }

  // Before anything but ping().
  kj::Promise<void> open_space(const SpaceDescriptor& descriptor);

  // Puts a prefix into the cache.
  kj::Promise<void> store(const Chain& chain, LoadFigures& figures);

  // Prompts, one after another, until then. Counts into `figures`, which must outlive the promise.
  kj::Promise<void> run_mix(Clock::time_point end, LoadFigures& figures);

  // Pings of the sizes of a mix's calls, in their order.
  kj::Promise<void> run_pings(Clock::time_point end, const std::array<CallSizes, load_calls>& sizes,
                              LoadFigures& figures);

  // Ends the connection. Nothing else may be called then.
  void drop() { space_ = nullptr, link_ = nullptr; }

 private:
  kj::Promise<void> match();
  kj::Promise<std::size_t> acquire();  // what was matched; how many blocks that gave
  // And seals them: the blocks from `first` on, before `end`.
  kj::Promise<void> reserve(std::size_t first, std::size_t end);
  kj::Promise<void> seal(std::size_t first, const std::vector<std::uint64_t>& slots);
  kj::Promise<void> release();
  kj::Promise<void> ping(std::size_t kind, Clock::time_point end,
                         const std::array<CallSizes, load_calls>& sizes);

  void sent() { sent_at_ = Clock::now(); }
  void answered(LoadCall call);
  void note_sizes(LoadCall call, std::uint64_t request, std::uint64_t reply);
  void verify_one(std::span<const std::uint64_t> slots);
  std::span<std::byte> block_at(std::uint64_t slot) const {
    return {link_->arena()->mapping->data() + slot, load_block_bytes};
  }

  kj::Own<client::Link> link_;
  LoadPrompts& prompts_;
  BlockKey space_digest_;
  protocol::Space::Client space_ = nullptr;
  LoadFigures* figures_ = nullptr;  // of the phase
  Clock::time_point sent_at_;
  std::uint64_t lease_ = 0;
  Sequence sequence_;
  std::size_t matched_ = 0;
  bool sampled_ = false;  // the prompt under way
};

}  // namespace terrace::bench
