// A pool of threads behind the ring's seam.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "storage/disk/ring.h"

namespace terrace::storage {

namespace {

constexpr unsigned max_ring_threads = 16;  // as fast as a ring of that depth

class ThreadRing final : public Ring {
 public:
  explicit ThreadRing(unsigned depth) {
    const unsigned count = std::clamp(depth, 1u, max_ring_threads);
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { work(); });
  }

  ~ThreadRing() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  std::string_view name() const override { return "threads"; }

  void submit(const RingOperation& operation) override {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(operation);
    }
    has_work_.notify_one();
  }

  void wait(std::vector<RingCompletion>& out, std::optional<std::int64_t> timeout_ns) override {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return woken_ || !done_.empty(); };
    if (timeout_ns)
      has_news_.wait_for(lock, std::chrono::nanoseconds(*timeout_ns), ready);
    else
      has_news_.wait(lock, ready);
    woken_ = false;
    out.insert(out.end(), done_.begin(), done_.end());
    done_.clear();
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    has_news_.notify_one();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      has_work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const RingOperation operation = queue_.front();
      queue_.pop_front();
      lock.unlock();
      const std::int64_t result = run(operation);
      lock.lock();
      done_.push_back({operation.tag, result});
      has_news_.notify_one();
    }
  }

  static std::int64_t run(const RingOperation& operation) {
    const auto count = static_cast<int>(operation.iovecs.size());
    const auto offset = static_cast<off_t>(operation.offset);
    for (;;) {
      ssize_t result = 0;
      switch (operation.kind) {
        case RingOperation::Kind::read:
          result = ::preadv(operation.fd, operation.iovecs.data(), count, offset);
          break;
        case RingOperation::Kind::write:
          result = ::pwritev(operation.fd, operation.iovecs.data(), count, offset);
          break;
        case RingOperation::Kind::sync:
          result = ::fdatasync(operation.fd);
          break;
      }
      if (result >= 0) return result;
      if (errno != EINTR) return -errno;
    }
  }

  std::mutex mutex_;
  std::condition_variable has_work_, has_news_;
  std::deque<RingOperation> queue_;
  std::vector<RingCompletion> done_;
  bool woken_ = false, stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Ring> make_thread_ring(unsigned depth) {
  return std::make_unique<ThreadRing>(depth);
}

}  // namespace terrace::storage
