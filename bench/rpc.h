// `terrace-bench rpc`: what a match costs beside a bare ping of the same size.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

namespace terrace::bench {

struct RpcOptions {
  std::size_t catalog_blocks = 100'000;
  std::size_t match_blocks = 512;
  std::size_t rounds = 2000;
  bool million = false;   // also with a catalog of 1,000,000 blocks (4 GiB of memory)
  std::string directory;  // where the daemon's socket goes; empty: a temporary folder
  bool quick = false;
};

int run_rpc(const RpcOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
