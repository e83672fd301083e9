// A few threads that run tasks in the order in which they were posted.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace terrace::storage {

class WorkerThreads {
 public:
  // `task(worker)` runs on one of `count` threads; `worker` < count says on which.
  using Task = std::function<void(unsigned worker)>;

  explicit WorkerThreads(unsigned count) {
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this, i] { work(i); });
  }

  // Runs what was posted, then ends.
  ~WorkerThreads() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  // Any thread. Whoever posts bounds how much it has under way.
  void post(Task task) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(task));
    }
    has_work_.notify_one();
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
