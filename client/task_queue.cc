#include "client/task_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace terrace::client {

TaskQueue::TaskQueue() : wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

bool TaskQueue::post(Task task) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    wake = tasks_.empty();
    tasks_.push_back(std::move(task));
  }
  if (wake) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
  }
  return true;
}

std::vector<Task> TaskQueue::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(wake_fd_.get(), &count, sizeof count);
  const std::lock_guard lock(mutex_);
  return std::exchange(tasks_, {});
}

void TaskQueue::close() {
  std::vector<Task> dropped;
  const std::lock_guard lock(mutex_);
  closed_ = true;
  dropped.swap(tasks_);
}

}  // namespace terrace::client
