// The way from any thread into the connection's thread.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include "core/unique_fd.h"

namespace terrace::client {

class Engine;

// What is to be done there, with what lives there.
using Task = std::function<void(Engine&)>;

class TaskQueue {
 public:
  TaskQueue();

  // False once the queue is closed; the task is destroyed then. Tasks run in the order of their
  // posting. Any thread.
  bool post(Task task);

  // For the thread that runs the tasks: readable after a post; what has been posted since the last
  // time; and an end, after which the tasks that nobody took are destroyed.
  int wake_fd() const { return wake_fd_.get(); }
  std::vector<Task> take();
  void close();

 private:
  UniqueFd wake_fd_;
  std::mutex mutex_;
  std::vector<Task> tasks_;
  bool closed_ = false;
};

}  // namespace terrace::client
