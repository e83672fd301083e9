// From the body of a request to sequences in the scheduler's queue: on threads of its own, since a
// long prompt takes a while to become tokens.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "inference/scheduler/scheduler.h"
#include "inference/server/call_board.h"
#include "inference/worker/engine.h"

namespace terrace::inference {

constexpr std::size_t preparing_threads = 2;

class CallPreparer {
 public:
  // All must outlive it. `model` is the name that requests may give.
  CallPreparer(const Engine& engine, Scheduler& scheduler, CallBoard& board, std::string model,
               ApiDefaults defaults);
  // What has not been begun is not done any more.
  ~CallPreparer();

  // Posts an acceptance or an error. Any thread.
  void prepare(std::shared_ptr<Call> call, ApiKind kind, std::string body);

  // Nobody waits for the call any more: it is not begun if it has not been. Any thread.
  void forget(const Call& call);

 private:
  struct Job {
    std::shared_ptr<Call> call;
    ApiKind kind;
    std::string body;
  };
  using Prompts = std::vector<std::vector<Token>>;

  void run();
  void prepare_now(const Job& job);
  tl::expected<ApiRequest, ApiError> read(const Job& job) const;
  tl::expected<Prompts, ApiError> encode(const ApiRequest& request) const;
  std::vector<SequenceRequest> sequences_of(const std::shared_ptr<Call>& call,
                                            const ApiRequest& request, const Prompts& prompts);

  const Engine& engine_;
  Scheduler& scheduler_;
  CallBoard& board_;
  const std::string model_;
  const ApiDefaults defaults_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Job> jobs_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace terrace::inference
