// Many sequences at once on one model: continuous batching. One thread computes, pass after pass;
// others look up what of a prompt is cached, so that no daemon holds up a pass for that.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "inference/model/logprobs.h"
#include "inference/model/sampler.h"
#include "inference/paged_kv/prefix_table.h"
#include "inference/paged_kv/private_memory.h"
#include "inference/paged_kv/sequence_kv.h"
#include "inference/scheduler/batch_planner.h"
#include "inference/scheduler/salted_spaces.h"
#include "inference/worker/engine.h"

namespace terrace::inference {

// Prompts whose cached prefix is looked up at the same time. Each may wait for another worker.
constexpr std::size_t lookup_threads = 8;

// How long an answer may wait for slots of the arena while all others wait with it: once, since it
// goes on in private memory then.
constexpr std::chrono::milliseconds longest_pass_stall{20};

struct SchedulerOptions {
  PlannerLimits limits;
  std::uint64_t kv_memory_bytes = std::uint64_t{1} << 30;  // outside of the arena
  // Whether sequences read each other's blocks, and wait for them, without asking the daemon.
  bool share_blocks = true;
};

// Whom a sequence's tokens go to. Called by the computing thread only, which must not be held up.
class TokenReceiver {
 public:
  virtual ~TokenReceiver() = default;
  // What of the prompt was cached; once, before the first token.
  virtual void begun(const PrefixHit& hit) = 0;
  // One more token; false: it is the last that is wanted, and nothing is called any more.
  virtual bool take(Token token, const std::optional<TokenLogprobs>& logprobs) = 0;
  // The end. Of a reason of the scheduler's: a token that ends answers (which is not handed on), or
  // the length. Or what went wrong.
  virtual void ended(FinishReason reason) = 0;
  virtual void failed(const Status& why) = 0;
};

struct SequenceRequest {
  std::vector<Token> prompt;      // not empty; fits the model's context
  std::uint32_t max_tokens = 16;  // at least 1
  int priority = 0;               // the lowest goes first
  SamplingOptions sampling;
  std::optional<std::uint32_t> logprobs;  // wanted, with so many alternatives
  bool ignore_stop_tokens = false;
  bool store = true;  // whether others may use its blocks
  std::string cache_salt;
  std::shared_ptr<TokenReceiver> receiver;
};

// All of it since the start, or now.
struct SchedulerStats {
  std::size_t queued = 0, running = 0, placed = 0;
  std::uint64_t preemptions = 0, passes = 0;
  std::uint64_t computed_prompt_tokens = 0;  // also those computed anew after a preemption
  std::uint64_t cached_prompt_tokens = 0, generated_tokens = 0;
  double pass_seconds = 0;  // spent in passes
  std::uint64_t private_kv_bytes = 0;
};

class Scheduler {
 public:
  // `engine` must outlive it, and is this one's alone.
  Scheduler(Engine& engine, const SchedulerOptions& options);
  // Ends everything that is under way; receivers are told nothing.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Takes in all of them, or none: resource_exhausted if the queue has no room for them,
  // invalid_argument for a prompt that memory can never hold. Any thread.
  Result<std::vector<SequenceId>> submit(std::vector<SequenceRequest> requests);
  // Nobody waits for these any more: they leave at the next pass, and nothing more is told their
  // receivers once it has begun. Any thread.
  void cancel(std::vector<SequenceId> ids);
  SchedulerStats stats() const;  // any thread

 private:
  struct Sequence {
    SequenceRequest request;
    PrefixRoot root;
    std::vector<Token> tokens;  // the prompt, and what was generated
    Sampler sampler;
    std::unique_ptr<SequenceKv> kv;  // from its lookup until it ends or gives up
    bool begun = false;

    explicit Sequence(SequenceRequest from)
        : request(std::move(from)), tokens(request.prompt), sampler(request.sampling) {
      sampler.observe_prompt(request.prompt);
    }
    std::size_t generated() const { return tokens.size() - request.prompt.size(); }
  };
  struct Arrival {
    SequenceId id;
    std::unique_ptr<Sequence> sequence;
    std::vector<BlockKey> keys;
  };
  struct Lookup {
    SequenceId id;
    std::unique_ptr<SequenceKv> kv;
    std::vector<Token> tokens;
    PrefixHit hit;
  };
  class Memory;

  // Of the computing thread:
  void compute_forever();
  // Takes what other threads have brought; waits for it if `idle`. False at the end.
  bool take_inbox(bool idle);
  void begin_lookup(SequenceId id);
  void finish_lookup(Lookup lookup);
  void run_pass(std::span<const PlannedPiece> pieces);
  // Hands on the token that `logits` choose; whether the sequence goes on.
  bool choose_token(Sequence& sequence, std::span<const float> logits);
  void end(SequenceId id);
  void fail(SequenceId id, const Status& why);
  void measure(std::span<const PlannedPiece> pieces, double seconds);
  void publish_stats();

  void look_up_forever();

  Engine& engine_;
  const SchedulerOptions options_;
  const KvGeometry geometry_;
  PrefixTable shared_;
  PrivateMemory private_memory_;
  SaltedSpaces spaces_;

  // The computing thread's.
  BatchPlanner planner_;
  std::map<SequenceId, std::unique_ptr<Sequence>> sequences_;
  std::vector<float> logits_;
  double prefill_tokens_per_second_ = 0;
  SchedulerStats counted_;

  mutable std::mutex mutex_;
  std::condition_variable arrived_, lookup_wanted_;
  std::vector<Arrival> arrivals_;
  std::vector<SequenceId> cancelled_;
  std::vector<Lookup> found_;
  std::deque<Lookup> lookups_;
  std::size_t queued_ =
      0;  // at the last turn, without those who gave a place up, and what has come since
  SequenceId last_id_ = 0;
  SchedulerStats stats_;
  bool stop_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace terrace::inference
