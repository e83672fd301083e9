// How an accelerator's threads get their copies and give back what became of them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "storage/device/accelerator.h"

namespace terrace::storage {

struct CopyJob {
  std::uint64_t ticket = 0;
  std::byte* to = nullptr;  // null: only the checksum
  std::span<const std::byte> from;
};

// Any thread.
class JobQueue {
 public:
  void push(const CopyJob& job) {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(job);
    }
    work_to_do_.notify_one();
  }

  // Waits for work, then takes at least one job and up to `most` while they copy no more than
  // `most_bytes` together. False once stopped.
  bool take(std::vector<CopyJob>& batch, std::size_t most, std::size_t most_bytes) {
    std::unique_lock lock(mutex_);
    work_to_do_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return false;
    batch.clear();
    std::size_t bytes = 0;
    do {
      bytes += jobs_.front().from.size();
      batch.push_back(jobs_.front());
      jobs_.pop_front();
    } while (!jobs_.empty() && batch.size() < most &&
             bytes + jobs_.front().from.size() <= most_bytes);
    running_ += batch.size();
    return true;
  }
  // So many taken jobs are over, and whoever waits has been told.
  void finished(std::size_t jobs) {
    const std::lock_guard lock(mutex_);
    running_ -= jobs;
    if (jobs_.empty() && running_ == 0) idle_.notify_all();
  }
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return jobs_.empty() && running_ == 0; });
  }
  // Forgets what nobody has taken; take() returns false from now on.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      jobs_.clear();
    }
    work_to_do_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable work_to_do_, idle_;
  std::deque<CopyJob> jobs_;
  std::size_t running_ = 0;
  bool stopping_ = false;
};

// Any thread.
class CompletionBox {
 public:
  void put(std::vector<CopyCompletion> completions) {
    bool first = false;
    {
      const std::lock_guard lock(mutex_);
      first = completions_.empty();
      completions_.insert(completions_.end(), std::make_move_iterator(completions.begin()),
                          std::make_move_iterator(completions.end()));
    }
    // Whoever has been told of one and has not taken it yet finds these beside it.
    if (!first) return;
    const std::lock_guard lock(notify_mutex_);
    if (notify_) notify_();
  }
  void take(std::vector<CopyCompletion>& out) {
    const std::lock_guard lock(mutex_);
    out.insert(out.end(), std::make_move_iterator(completions_.begin()),
               std::make_move_iterator(completions_.end()));
    completions_.clear();
  }
  void set_notify(std::function<void()> notify) {
    const std::lock_guard lock(notify_mutex_);
    notify_ = std::move(notify);
  }

 private:
  std::mutex mutex_;
  std::vector<CopyCompletion> completions_;
  std::mutex notify_mutex_;
  std::function<void()> notify_;
};

}  // namespace terrace::storage
