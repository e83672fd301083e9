#include "inference/cpu/probe.h"

#include <chrono>
#include <cstring>
#include <vector>

namespace terrace::inference {

namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

double peak_multiply_adds_per_s(Team& team, const KernelTable& kernels, Compute compute,
                                double seconds) {
  constexpr std::size_t steps = 100'000;  // well under a millisecond between looks at the clock
  std::vector<double> rates(static_cast<std::size_t>(team.threads()));
  team.run([&](TeamMember member) {
    kernels.spin_multiply(compute, steps);
    member.barrier();
    const auto start = std::chrono::steady_clock::now();
    double done = 0, elapsed = 0;
    do {
      done += kernels.spin_multiply(compute, steps);
      elapsed = seconds_since(start);
    } while (elapsed < seconds);
    rates[static_cast<std::size_t>(member.thread())] = done / elapsed;
  });
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

double read_bandwidth_bytes_per_s(Team& team, const KernelTable& kernels, std::size_t bytes,
                                  double seconds) {
  AlignedBuffer buffer(bytes);
  std::vector<double> rates(static_cast<std::size_t>(team.threads()));
  std::vector<float> results(rates.size());
  team.run([&](TeamMember member) {
    const Range mine = split(bytes, member, 4096);
    const std::size_t size = mine.end - mine.begin;
    const auto thread = static_cast<std::size_t>(member.thread());
    std::memset(buffer.data() + mine.begin, 0, size);
    member.barrier();
    const auto start = std::chrono::steady_clock::now();
    double done = 0, elapsed = 0;
    do {
      results[thread] += kernels.read(buffer.data() + mine.begin, size);
      done += static_cast<double>(size);
      elapsed = seconds_since(start);
    } while (elapsed < seconds);
    rates[thread] = done / elapsed;
  });
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

}  // namespace terrace::inference
