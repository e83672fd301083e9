// Who does the work of a store that takes its time: a few threads of its own; a seam, so that a
// test can do it step by step in an order of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace terrace::storage {

class Workers {
 public:
  // `task(worker)` runs on one of `count` workers; `worker` < count says on which.
  using Task = std::function<void(unsigned worker)>;

  // Ends once everything that was posted was run, and the last turn of a loop.
  virtual ~Workers() = default;

  // Any thread, never blocks. Tasks begin in the order in which they were posted. Whoever posts
  // bounds how much it has under way.
  virtual void post(Task task) = 0;
  // Takes one of the workers for itself: one turn after the other, until one returns false.
  virtual void loop(std::function<bool()> turn) = 0;
};

class WorkerThreads final : public Workers {
 public:
  explicit WorkerThreads(unsigned count) {
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  }

  ~WorkerThreads() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  void post(Task task) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    has_work_.notify_one();
  }

  void loop(std::function<bool()> turn) override {
    post([turn = std::move(turn)](unsigned) {
      while (turn()) {
      }
    });
  }

 private:
  void work(unsigned worker) {
    std::unique_lock lock(mutex_);
    for (;;) {
      has_work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const Task task = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      task(worker);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable has_work_;
  std::deque<Task> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace terrace::storage
