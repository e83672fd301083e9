#include "storage/policy/ghost_table.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace terrace::storage {
namespace {

TEST(GhostTable, AgreesWithAQueue) {
  std::mt19937_64 random(5);
  GhostTable table;
  struct Ghost {
    std::uint64_t key;
    RequestNumber request;
  };
  std::deque<Ghost> queue;
  const auto in_queue = [&](std::uint64_t key) {
    return std::find_if(queue.begin(), queue.end(), [&](const Ghost& g) { return g.key == key; });
  };
  for (RequestNumber step = 1; step < 20'000; ++step) {
    // Limits that rise and fall; few enough keys that they meet again, of few hashes.
    const std::size_t limit = step % 4000 < 2000 ? 1000 : 100;
    table.set_limit(limit);
    const std::uint64_t key = random() % 3000 * 256;
    const auto known = in_queue(key);
    const auto found = table.take(key);
    ASSERT_EQ(found.has_value(), known != queue.end());
    if (found) {
      ASSERT_EQ(found->request, known->request);
      queue.erase(known);
      ASSERT_FALSE(table.take(key));
    }
    if (!found || step % 2 == 0) {
      table.put(key, {step, 1, false});
      queue.push_back({key, step});
    }
    while (const auto excess = table.take_excess()) {
      ASSERT_EQ(excess->request, queue.front().request);
      queue.pop_front();
    }
    ASSERT_EQ(table.size(), queue.size());
    ASSERT_LE(table.size(), limit);
  }
}

}  // namespace
}  // namespace terrace::storage
