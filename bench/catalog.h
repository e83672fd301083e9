// `terrace-bench catalog`: what knowing blocks costs, in time and memory, as their number grows.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <vector>

namespace terrace::bench {

struct CatalogOptions {
  std::vector<std::size_t> blocks = {10'000, 100'000, 1'000'000};
  std::size_t match_blocks = 512;
  std::size_t rounds = 201;  // matches of each catalog that are timed
  bool quick = false;
};

int run_catalog(const CatalogOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
