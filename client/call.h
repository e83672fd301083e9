// A call that one thread waits for and the connection's thread answers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "client/client.h"
#include "core/status.h"

namespace terrace::client {

// Answered once, or given up by its caller once; whichever comes first wins. Any thread.
template <typename T>
class Call {
 public:
  // Runs `build` unless the caller has given up: while it runs, what the caller's arguments point
  // to stays valid. False if the caller has given up.
  template <typename Build>
  bool while_wanted(Build&& build) {
    const std::lock_guard lock(mutex_);
    if (abandoned_) return false;
    build();
    return true;
  }

  // False, and nothing done, if the call was answered before or is not wanted any more.
  bool answer(Result<T> result) {
    {
      const std::lock_guard lock(mutex_);
      if (abandoned_ || result_) return false;
      result_.emplace(std::move(result));
    }
    answered_.notify_one();
    return true;
  }

  // Nobody waits any more: no answer is taken from now on, and nothing of the caller's is touched.
  void abandon() {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }

  // The answer, or nothing at the deadline; from then on none is taken.
  std::optional<Result<T>> wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    answered_.wait_until(lock, deadline, [this] { return result_.has_value(); });
    abandoned_ = true;
    return std::move(result_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable answered_;
  std::optional<Result<T>> result_;
  bool abandoned_ = false;
};

inline tl::unexpected<Status> not_understood() {
  return error(StatusCode::internal, "terraced gave an answer that makes no sense");
}

// Sees to it that a call is answered whatever becomes of it: the last copy answers "unavailable".
template <typename T>
class Answer {
 public:
  explicit Answer(std::shared_ptr<Call<T>> call)
      : guard_(std::make_shared<Guard>(std::move(call))) {}

  bool operator()(Result<T> result) const { return guard_->call->answer(std::move(result)); }
  Call<T>& call() const { return *guard_->call; }

 private:
  struct Guard {
    explicit Guard(std::shared_ptr<Call<T>> wanted) : call(std::move(wanted)) {}
    ~Guard() { call->answer(error(StatusCode::unavailable, "the connection to terraced is gone")); }
    std::shared_ptr<Call<T>> call;
  };
  std::shared_ptr<Guard> guard_;
};

}  // namespace terrace::client
