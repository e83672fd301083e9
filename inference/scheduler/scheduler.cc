#include "inference/scheduler/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/bytes.h"

namespace terrace::inference {

namespace {

using Steady = std::chrono::steady_clock;

// A pass with fewer tokens of prompts than this says little about the speed of a prompt.
constexpr std::size_t min_prompt_tokens_for_speed = 128;

}  // namespace

class Scheduler::Memory final : public SequenceMemory {
 public:
  explicit Memory(Scheduler& scheduler) : scheduler_(scheduler) {}

  bool grow(SequenceId sequence, std::size_t tokens) override {
    return scheduler_.sequences_.at(sequence)->kv->grow_to(tokens).ok();
  }
  void give_up(SequenceId sequence) override { scheduler_.sequences_.at(sequence)->kv.reset(); }

 private:
  Scheduler& scheduler_;
};

Scheduler::Scheduler(Engine& engine, const SchedulerOptions& options)
    : engine_(engine),
      options_(options),
      geometry_(engine.model().kv_geometry()),
      private_memory_(engine.model().kv_memory(), options.kv_memory_bytes),
      spaces_(engine),
      planner_([&] {
        PlannerLimits limits = options.limits;
        limits.block_tokens = geometry_.block_tokens;
        return limits;
      }()) {
  threads_.emplace_back([this] { compute_forever(); });
  for (std::size_t i = 0; i < lookup_threads; ++i)
    threads_.emplace_back([this] { look_up_forever(); });
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  arrived_.notify_all();
  lookup_wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<std::vector<SequenceId>> Scheduler::submit(std::vector<SequenceRequest> requests) {
  if (requests.size() > options_.limits.max_queued)
    return error(StatusCode::invalid_argument,
                 std::to_string(requests.size()) + " answers are more than the " +
                     std::to_string(options_.limits.max_queued) + " places of the queue");
  std::vector<Arrival> arrivals;
  for (SequenceRequest& request : requests) {
    const std::size_t blocks = request.prompt.size() / geometry_.block_tokens + 1;
    if (blocks * geometry_.block_bytes() > options_.kv_memory_bytes)
      return error(StatusCode::invalid_argument,
                   "the prompt has " + std::to_string(request.prompt.size()) +
                       " tokens, more than the " + format_bytes(options_.kv_memory_bytes) +
                       " of KV memory hold");
    Arrival arrival{0, std::make_unique<Sequence>(std::move(request)), {}};
    Sequence& sequence = *arrival.sequence;
    sequence.root = spaces_.root_of(sequence.request.cache_salt);
    if (options_.share_blocks)
      arrival.keys = derive_block_keys(sequence.root.key,
                                       std::span(sequence.tokens).first(sequence.tokens.size() - 1),
                                       geometry_.block_tokens);
    arrivals.push_back(std::move(arrival));
  }
  std::vector<SequenceId> ids;
  {
    const std::lock_guard lock(mutex_);
    if (queued_ + arrivals.size() > options_.limits.max_queued)
      return error(
          StatusCode::resource_exhausted,
          "all " + std::to_string(options_.limits.max_queued) + " places of the queue are taken");
    queued_ += arrivals.size();
    stats_.queued += arrivals.size();
    for (Arrival& arrival : arrivals) {
      arrival.id = ++last_id_;
      ids.push_back(arrival.id);
      arrivals_.push_back(std::move(arrival));
    }
  }
  arrived_.notify_one();
  return ids;
}

void Scheduler::cancel(std::vector<SequenceId> ids) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.insert(cancelled_.end(), ids.begin(), ids.end());
  }
  arrived_.notify_one();
}

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(mutex_);
  SchedulerStats stats = stats_;
  stats.private_kv_bytes = private_memory_.used_bytes();
  return stats;
}

void Scheduler::compute_forever() {
  Memory memory(*this);
  std::vector<PlannedPiece> pieces;
  bool idle = true;
  while (take_inbox(idle)) {
    for (const SequenceId id : planner_.begin_lookups()) begin_lookup(id);
    pieces = planner_.plan(memory);
    const std::vector<SequenceId> hopeless = planner_.take_hopeless();
    for (const SequenceId id : hopeless) {
      Sequence& sequence = *sequences_.at(id);
      // As where the model's context ends.
      if (sequence.generated() > 0) {
        sequence.request.receiver->ended(FinishReason::length);
      } else {
        sequence.request.receiver->failed(
            {StatusCode::resource_exhausted, "KV memory is too small for this prompt"});
      }
      end(id);
    }
    if (!pieces.empty()) run_pass(pieces);
    // Whoever ends makes room for others.
    idle = pieces.empty() && hopeless.empty();
    publish_stats();
  }
  sequences_.clear();
}

bool Scheduler::take_inbox(bool idle) {
  std::vector<Arrival> arrivals;
  std::vector<SequenceId> cancelled;
  std::vector<Lookup> found;
  {
    std::unique_lock lock(mutex_);
    if (idle)
      arrived_.wait(lock, [&] {
        return stop_ || !arrivals_.empty() || !cancelled_.empty() || !found_.empty();
      });
    if (stop_) return false;
    arrivals.swap(arrivals_);
    cancelled.swap(cancelled_);
    found.swap(found_);
  }
  for (Arrival& arrival : arrivals) {
    NewSequence added{.id = arrival.id,
                      .priority = arrival.sequence->request.priority,
                      .tokens = arrival.sequence->tokens.size(),
                      .keys = std::move(arrival.keys),
                      .publishes = arrival.sequence->request.store};
    const Status status = planner_.add(std::move(added));
    if (status.ok()) {
      sequences_.emplace(arrival.id, std::move(arrival.sequence));
    } else {
      arrival.sequence->request.receiver->failed(status);
    }
  }
  for (Lookup& lookup : found) finish_lookup(std::move(lookup));
  for (const SequenceId id : cancelled) end(id);
  return true;
}

void Scheduler::begin_lookup(SequenceId id) {
  Sequence& sequence = *sequences_.at(id);
  SequenceCacheOptions cache = engine_.sequence_cache_options();
  cache.prefill_tokens_per_second = prefill_tokens_per_second_;
  cache.store = sequence.request.store;
  if (options_.share_blocks) cache.shared = &shared_;
  cache.root = sequence.root.key;
  cache.memory = &private_memory_;
  cache.grow_wait = longest_pass_stall;
  Lookup lookup{id,
                std::make_unique<SequenceKv>(geometry_, sequence.root.space, std::move(cache)),
                sequence.tokens,
                {}};
  {
    const std::lock_guard lock(mutex_);
    lookups_.push_back(std::move(lookup));
  }
  lookup_wanted_.notify_one();
}

void Scheduler::look_up_forever() {
  while (true) {
    std::unique_lock lock(mutex_);
    lookup_wanted_.wait(lock, [this] { return stop_ || !lookups_.empty(); });
    if (stop_) return;
    Lookup lookup = std::move(lookups_.front());
    lookups_.pop_front();
    lock.unlock();
    lookup.hit = lookup.kv->start(lookup.tokens);
    lock.lock();
    found_.push_back(std::move(lookup));
    lock.unlock();
    arrived_.notify_one();
  }
}

void Scheduler::finish_lookup(Lookup lookup) {
  const auto found = sequences_.find(lookup.id);
  if (found == sequences_.end()) return;  // cancelled meanwhile: its blocks go with it
  Sequence& sequence = *found->second;
  sequence.kv = std::move(lookup.kv);
  planner_.looked_up(lookup.id, lookup.hit.cached_tokens);
  if (std::exchange(sequence.begun, true)) return;
  counted_.cached_prompt_tokens += lookup.hit.cached_tokens;
  sequence.request.receiver->begun(lookup.hit);
}

void Scheduler::run_pass(std::span<const PlannedPiece> pieces) {
  std::vector<SequenceStep> steps;
  for (const PlannedPiece& piece : pieces) {
    const Sequence& sequence = *sequences_.at(piece.id);
    steps.push_back({std::span(sequence.tokens).subspan(piece.first, piece.tokens),
                     static_cast<std::uint32_t>(piece.first), sequence.kv->blocks()});
  }
  const std::size_t vocabulary = engine_.model().config().vocabulary;
  if (logits_.size() < steps.size() * vocabulary) logits_.resize(steps.size() * vocabulary);
  const auto begin = Steady::now();
  const Status status =
      engine_.model().forward(steps, std::span(logits_).first(steps.size() * vocabulary));
  measure(pieces, std::chrono::duration<double>(Steady::now() - begin).count());
  if (!status.ok()) {
    for (const PlannedPiece& piece : pieces) fail(piece.id, status);
    return;
  }
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const PlannedPiece& piece = pieces[i];
    Sequence& sequence = *sequences_.at(piece.id);
    const std::vector<Token> computed(steps[i].tokens.begin(), steps[i].tokens.end());
    // First the token: nobody waits for the names of blocks.
    const bool goes_on = !piece.last || choose_token(sequence, std::span(logits_).subspan(
                                                                   i * vocabulary, vocabulary));
    sequence.kv->computed(computed);
    planner_.computed(piece, piece.last && goes_on);
    if (!goes_on) end(piece.id);
  }
}

bool Scheduler::choose_token(Sequence& sequence, std::span<const float> logits) {
  const SequenceRequest& request = sequence.request;
  const Token token = sequence.sampler.sample(logits);
  if (!request.ignore_stop_tokens && engine_.tokenizer().stop_tokens().contains(token)) {
    request.receiver->ended(FinishReason::stop);
    return false;
  }
  ++counted_.generated_tokens;
  std::optional<TokenLogprobs> logprobs;
  if (request.logprobs) logprobs = token_logprobs(logits, token, *request.logprobs);
  if (!request.receiver->take(token, logprobs)) return false;
  // The last token of the context has no place for a next one.
  const bool full = sequence.tokens.size() >= engine_.model().config().context_length;
  if (sequence.generated() + 1 >= request.max_tokens || full) {
    request.receiver->ended(FinishReason::length);
    return false;
  }
  sequence.tokens.push_back(token);
  return true;
}

void Scheduler::end(SequenceId id) {
  planner_.remove(id);
  sequences_.erase(id);
}

void Scheduler::fail(SequenceId id, const Status& why) {
  sequences_.at(id)->request.receiver->failed(why);
  end(id);
}

void Scheduler::measure(std::span<const PlannedPiece> pieces, double seconds) {
  std::size_t prompt_tokens = 0;
  for (const PlannedPiece& piece : pieces)
    if (piece.first < sequences_.at(piece.id)->request.prompt.size()) prompt_tokens += piece.tokens;
  if (prompt_tokens >= min_prompt_tokens_for_speed)
    prefill_tokens_per_second_ = static_cast<double>(prompt_tokens) / seconds;
  ++counted_.passes;
  counted_.pass_seconds += seconds;
  counted_.computed_prompt_tokens += prompt_tokens;
}

void Scheduler::publish_stats() {
  const std::lock_guard lock(mutex_);
  stats_ = counted_;
  stats_.running = planner_.running();
  stats_.placed = planner_.placed();
  stats_.preemptions = planner_.preemptions();
  stats_.queued = planner_.queued() + arrivals_.size();
  queued_ = stats_.queued - planner_.given_up();
}

}  // namespace terrace::inference
