// `terrace-bench tiers`: what moving blocks between the tiers costs, verification included, beside
// doing the same with nothing but memcpy and a bare ring.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "storage/disk/ring.h"

namespace terrace::bench {

struct TiersOptions {
  std::vector<std::size_t> block_kib = {128, 720, 4096};
  std::size_t megabytes = 512;  // moved for each point
  std::size_t repetitions = 7;
  std::string directory;  // where the disk tier goes; empty: a temporary folder
  storage::RingKind ring = storage::RingKind::automatic;
  bool quick = false;
};

int run_tiers(const TiersOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
