#include "core/background_population.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>

namespace terrace {
namespace {

using Steady = std::chrono::steady_clock;

// While a piece is touched nobody else can change the process's mappings: pieces are small.
constexpr std::size_t piece_bytes = std::size_t{256} << 10;
// After each piece the thread rests for so many times as long as it took: a twentieth of a core is
// its share. A low priority would not do, since it says nothing to the processes of other sessions
// and containers.
constexpr int rests_per_piece = 19;

void populate(const SharedMapping& mapping, std::size_t begin, std::size_t end,
              const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  for (std::size_t at = begin; at < end && !stop.stop_requested(); at += piece_bytes) {
    const auto started = Steady::now();
    mapping.populate(at, std::min(piece_bytes, end - at));
    never.wait_for(lock, stop, (Steady::now() - started) * rests_per_piece, [] { return false; });
  }
}

}  // namespace

BackgroundPopulation::BackgroundPopulation(const SharedMapping& mapping, std::size_t begin,
                                           std::size_t end) {
  end = std::min(end, mapping.size());
  if (begin >= end) return;
  try {
    thread_ = std::jthread([&mapping, begin, end](const std::stop_token& stop) {
      populate(mapping, begin, end, stop);
    });
  } catch (const std::system_error&) {
    // Pages then fault when they are used.
  }
}

}  // namespace terrace
