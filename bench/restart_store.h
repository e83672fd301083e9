// What `terrace-bench restart` does in processes of its own: fill a disk tier, open it again, and
// be killed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/status.h"

namespace terrace::bench {

constexpr std::size_t restart_block_bytes = 4096;
constexpr std::uint32_t restart_block_tokens = 32;

// Sent by a process that then waits to be killed, or ends in order.
struct StoreReport {
  bool good = false;
  double ready_s = 0;            // from before the store is opened until every block is known
  std::int64_t grown_bytes = 0;  // of memory that is the process's own, meanwhile
  char message[240] = {};        // what went wrong
};

enum class End { in_order, killed };

// Calls `work` in a child process, which then ends in order (by what `work` put into `stop`) or is
// killed, and gives back what it reports. Threads of this process are not in the child: there
// should be none.
Result<StoreReport> in_child(const std::function<StoreReport(std::function<void()>& stop)>& work,
                             End end);

// Writes `blocks` blocks, in chains, all durable when it returns.
StoreReport fill_store(const std::string& directory, std::size_t blocks,
                       std::function<void()>& stop);
// Opens the store with a cache over it, checks that it knows all of these blocks, reads some back
// and compares them. Told to stop, it drains.
StoreReport open_store_again(const std::string& directory, std::size_t blocks,
                             std::function<void()>& stop);

}  // namespace terrace::bench
