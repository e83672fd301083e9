// `terrace export`: blocks of a running daemon into an archive.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/operator.h"
#include "core/status.h"

namespace terrace::cli {

// Which prefixes; all of them unless something is set. What is set must all hold.
struct ExportSelection {
  std::optional<BlockKey> space;
  std::optional<BlockKey> prefix;      // the one that ends in this block
  bool pinned = false;                 // those that end in `pins`
  std::optional<std::size_t> hottest;  // so many, those used last
  std::vector<BlockKey> pins;
};

struct ExportPlan {
  std::vector<const client::BlockListing*> blocks;  // each behind its parent
  std::size_t unreachable = 0;                      // chosen, but one before them is missing
};

// What of a listing goes into an archive, in its order. The result points into the listing.
ExportPlan plan_export(std::span<const client::BlockListing> listing,
                       const ExportSelection& selection);

struct ExportOutcome {
  std::uint64_t blocks = 0, bytes = 0;  // written, in all
  std::uint64_t spaces = 0;
  std::uint64_t kept = 0;         // of the blocks: that an earlier export had written
  std::uint64_t gone = 0;         // chosen, but could not be read
  std::string why_gone;           // of the first of those
  std::uint64_t unreachable = 0;  // chosen, but one before them is missing
};

// Writes the archive; an export that ends early leaves what `resume` goes on with. `progress`
// (null: not shown) is a line that is written over.
Result<ExportOutcome> export_archive(client::OperatorClient& daemon, const std::string& path,
                                     const ExportSelection& selection, bool resume,
                                     std::ostream* progress);

}  // namespace terrace::cli
