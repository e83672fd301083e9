// A recorded or made-up sequence of requests, as blocks of a prefix tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"

namespace terrace::bench {

// An id stands for the whole prefix up to its block: equal ids mean equal ancestors.
struct TraceRequest {
  std::vector<std::uint32_t> blocks;  // from the root, each the child of the one before
};

struct Trace {
  std::vector<TraceRequest> requests;
  std::uint64_t blocks = 0;    // of all requests
  std::uint32_t distinct = 0;  // ids are 0 … distinct - 1

  // Numbers the ids from 0 in the order of their first use and counts. Requests without a block
  // count as requests.
  void renumber();
};

// Reads one JSON object a line with `hash_ids` and `input_length`. A request's last id stands for a
// block that is only partly filled unless `input_length` is a multiple of 512; `full_blocks_only`
// leaves it out. io_error or invalid_argument, which names the line.
Result<Trace> read_trace(const std::string& path, bool full_blocks_only);

}  // namespace terrace::bench
