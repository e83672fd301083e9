// `terrace-bench redis`: blocks to a Redis and back through the real tier, verified, beside bare
// sockets.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

namespace terrace::bench {

struct RedisBenchOptions {
  std::vector<std::size_t> block_kib = {128, 720, 4096};
  std::size_t megabytes = 256;  // moved for each point
  std::size_t repetitions = 7;
  // Of a server, as an address and a port; values stay there for an hour. Empty: one of its own.
  std::string address;
  unsigned connections = 0;  // of the tier, for values; 0: its default
  bool quick = false;
};

int run_redis(const RedisBenchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
