// A team of threads that run one function together (SPMD) and meet at barriers inside it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "inference/cpu/aligned_buffer.h"

namespace terrace::inference {

class Team;

// What a function running on the team knows about itself. Cheap to copy; valid during the run.
class TeamMember {
 public:
  TeamMember(Team* team, int thread) : team_(team), thread_(thread) {}

  int thread() const { return thread_; }  // 0 is the thread that called run()
  int threads() const;
  // Returns once every thread of the team has called it; what any thread wrote before is visible
  // to all after.
  void barrier() const;
  // At least `bytes` of 64-byte aligned memory of this thread's own; contents are undefined, and
  // a later call by the same thread invalidates it.
  std::byte* scratch(std::size_t bytes) const;

 private:
  Team* team_;
  int thread_;
};

class Team {
 public:
  // threads = 0: one a CPU that this process may run on (sched_getaffinity). Throws
  // std::system_error if the system has no more threads.
  explicit Team(int threads = 0);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int threads() const { return threads_; }

  // Calls function(TeamMember) once on each thread, the caller being thread 0, and returns when
  // all have returned. Not to be nested, and called by one thread at a time; the function must
  // not throw. Between runs the other threads sleep.
  template <typename Function>
  void run(Function&& function) {
    using Plain = std::remove_reference_t<Function>;
    run_erased([](void* context, TeamMember member) { (*static_cast<Plain*>(context))(member); },
               const_cast<void*>(static_cast<const void*>(std::addressof(function))));
  }

 private:
  friend class TeamMember;
  using Call = void (*)(void* context, TeamMember member);

  void run_erased(Call call, void* context);
  void work(int thread);
  void dismiss();
  void barrier();

  // Counters that different threads write lie in cache lines of their own.
  struct alignas(64) Counter {
    std::atomic<std::uint32_t> value{0};
  };

  int threads_;
  bool oversubscribed_;  // more threads than CPUs: a waiter gives its CPU away at once
  Call call_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
  Counter run_generation_;      // a new run was started (or stop_ was set)
  Counter arrived_;             // at the barrier
  Counter barrier_generation_;  // barriers passed
  std::vector<AlignedBuffer> scratch_;
  std::vector<std::thread> workers_;
};

inline int TeamMember::threads() const { return team_->threads(); }
inline void TeamMember::barrier() const { team_->barrier(); }

struct Range {
  std::size_t begin, end;
};

// The member's part of [0, total), cut into runs of whole units as even as possible.
Range split(std::size_t total, TeamMember member, std::size_t unit = 1);

}  // namespace terrace::inference
