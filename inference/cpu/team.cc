#include "inference/cpu/team.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace terrace::inference {

namespace {

// A futex wake costs about 30 us: within a run a waiter spins for longer than the other threads
// can be late, and sleeps only when something else has taken their CPU.
constexpr auto max_spin = std::chrono::microseconds(1000);
constexpr int spins_between_clock_reads = 256;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// Returns once `word` differs from `old`.
void wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t old, bool spin) {
  if (spin) {
    const auto start = std::chrono::steady_clock::now();
    do {
      for (int i = 0; i < spins_between_clock_reads; ++i) {
        if (word.load(std::memory_order_acquire) != old) return;
        relax();
      }
      // The thread waited for may be ready to run behind this one. On a busy machine this is worth
      // a factor of seven to a decoding pair of threads; on a quiet one it returns at once.
      sched_yield();
    } while (std::chrono::steady_clock::now() - start < max_spin);
  }
  while (word.load(std::memory_order_acquire) == old) word.wait(old, std::memory_order_acquire);
}

}  // namespace

std::byte* TeamMember::scratch(std::size_t bytes) const {
  AlignedBuffer& buffer = team_->scratch_[static_cast<std::size_t>(thread_)];
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  return buffer.data();
}

Team::Team(int threads) {
  const int cpus = usable_cpus();
  threads_ = threads > 0 ? threads : cpus;
  oversubscribed_ = threads_ > cpus;
  scratch_.resize(static_cast<std::size_t>(threads_));
  try {
    for (int thread = 1; thread < threads_; ++thread) {
      workers_.emplace_back([this, thread] { work(thread); });
    }
  } catch (...) {
    dismiss();
    throw;
  }
}

Team::~Team() { dismiss(); }

void Team::dismiss() {
  stop_ = true;
  run_generation_.value.fetch_add(1, std::memory_order_release);
  run_generation_.value.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void Team::run_erased(Call call, void* context) {
  call_ = call;
  context_ = context;
  run_generation_.value.fetch_add(1, std::memory_order_release);
  run_generation_.value.notify_all();
  call(context, TeamMember(this, 0));
  barrier();
}

void Team::work(int thread) {
  std::uint32_t seen = 0;
  for (;;) {
    wait_for_change(run_generation_.value, seen, false);
    ++seen;
    if (stop_) return;
    call_(context_, TeamMember(this, thread));
    barrier();  // the run ends when all are here
  }
}

void Team::barrier() {
  if (threads_ == 1) return;
  const std::uint32_t generation = barrier_generation_.value.load(std::memory_order_relaxed);
  if (arrived_.value.fetch_add(1, std::memory_order_acq_rel) + 1 ==
      static_cast<std::uint32_t>(threads_)) {
    arrived_.value.store(0, std::memory_order_relaxed);
    barrier_generation_.value.store(generation + 1, std::memory_order_release);
    barrier_generation_.value.notify_all();
  } else {
    wait_for_change(barrier_generation_.value, generation, !oversubscribed_);
  }
}

Range split(std::size_t total, TeamMember member, std::size_t unit) {
  const std::size_t units = (total + unit - 1) / unit;
  const auto threads = static_cast<std::size_t>(member.threads());
  const auto thread = static_cast<std::size_t>(member.thread());
  return {std::min(total, units * thread / threads * unit),
          std::min(total, units * (thread + 1) / threads * unit)};
}

}  // namespace terrace::inference
