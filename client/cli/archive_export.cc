#include "client/cli/archive_export.h"

#include <algorithm>
#include <ostream>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "client/cli/archive_writer.h"
#include "client/cli/fetch_listing.h"
#include "client/cli/program.h"
#include "core/bytes.h"
#include "core/clock.h"

namespace terrace::cli {
namespace {

// A large block from a slow disk comes within this.
constexpr std::chrono::seconds read_timeout{60};
constexpr std::uint64_t blocks_between_progress = 16;

// Without the ids of tokens, which come with a block's bytes.
Result<std::vector<client::BlockListing>> list_all_blocks(client::OperatorClient& daemon,
                                                          const std::optional<BlockKey>& space) {
  std::vector<client::BlockListing> all;
  const auto complete = visit_blocks(daemon, call_timeout, [&](const client::BlockListing& block) {
    if (space && block.space != *space) return true;
    all.push_back(block);
    all.back().tokens = {};
    return true;
  });
  if (!complete) return error(complete.error());
  return all;
}

RecordHeader header_of(const client::BlockBytes& read, std::int64_t now_unix_ms) {
  RecordHeader header;
  header.space = read.block.space;
  header.key = read.block.key;
  header.parent = read.block.parent;
  header.tokens = read.block.tokens;
  header.created_unix_ms = read.created_unix_ms != 0 ? read.created_unix_ms : now_unix_ms;
  return header;
}

}  // namespace

ExportPlan plan_export(std::span<const client::BlockListing> listing,
                       const ExportSelection& selection) {
  std::unordered_map<BlockKey, const client::BlockListing*> by_key;
  std::unordered_set<BlockKey> followed;
  for (const client::BlockListing& block : listing) {
    by_key.emplace(block.key, &block);
    if (block.depth > 0) followed.insert(block.parent);
  }
  const std::unordered_set<BlockKey> pinned(selection.pins.begin(), selection.pins.end());
  std::vector<const client::BlockListing*> tails;
  for (const client::BlockListing& block : listing) {
    if (selection.space && block.space != *selection.space) continue;
    if (selection.pinned && !pinned.contains(block.key)) continue;
    if (selection.prefix && block.key != *selection.prefix) continue;
    // Where no blocks are named, prefixes are those that nothing goes on from.
    if (!selection.pinned && !selection.prefix && followed.contains(block.key)) continue;
    tails.push_back(&block);
  }
  std::ranges::sort(tails, [](const auto* a, const auto* b) {
    return std::tie(b->recency, a->key) < std::tie(a->recency, b->key);
  });
  if (selection.hottest && tails.size() > *selection.hottest) tails.resize(*selection.hottest);

  ExportPlan plan;
  std::unordered_set<BlockKey> planned;
  for (const client::BlockListing* tail : tails) {
    std::vector<const client::BlockListing*> chain;
    const client::BlockListing* at = tail;
    bool whole = true;
    while (!planned.contains(at->key)) {
      chain.push_back(at);
      if (at->depth == 0) break;
      const auto parent = by_key.find(at->parent);
      if (parent == by_key.end()) {
        whole = false;
        break;
      }
      at = parent->second;
    }
    if (!whole) {
      plan.unreachable += chain.size();
      continue;
    }
    for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
      planned.insert((*one)->key);
      plan.blocks.push_back(*one);
    }
  }
  return plan;
}

Result<ExportOutcome> export_archive(client::OperatorClient& daemon, const std::string& path,
                                     const ExportSelection& selection, bool resume,
                                     std::ostream* progress) {
  const auto spaces = daemon.list_spaces(call_deadline());
  if (!spaces) return error(spaces.error());
  const auto listing = list_all_blocks(daemon, selection.space);
  if (!listing) return error(listing.error());
  const ExportPlan plan = plan_export(*listing, selection);
  if (selection.prefix && plan.blocks.empty())
    return error(StatusCode::not_found,
                 "no prefix ends in block " + selection.prefix->hex() + " that is whole");

  ExportOutcome outcome;
  outcome.unreachable = plan.unreachable;
  const std::int64_t now_unix_ms = SystemClock().unix_ms();
  std::unordered_set<BlockKey> written_spaces, written;
  auto writer =
      resume ? ArchiveWriter::resume(path,
                                     [&](const ArchivePart& part) {
                                       if (const auto* space = std::get_if<SpaceDescriptor>(&part))
                                         written_spaces.insert(space->digest());
                                       else
                                         written.insert(std::get<ArchiveRecord>(part).header.key);
                                     })
             : ArchiveWriter::create(path, now_unix_ms);
  if (!writer) return error(writer.error());
  outcome.kept = written.size();
  std::uint64_t done = 0;
  const auto show = [&] {
    if (progress)
      *progress << "\r" << done << "/" << plan.blocks.size() << " blocks, "
                << format_bytes(writer->sum().bytes) << "  " << std::flush;
  };
  for (const client::BlockListing* block : plan.blocks) {
    if (done++ % blocks_between_progress == 0) show();
    if (written.contains(block->key)) continue;
    // Where a block is gone, what followed it could not be imported.
    if (block->depth > 0 && !written.contains(block->parent)) {
      ++outcome.unreachable;
      continue;
    }
    const auto read = daemon.read_block(block->key, client::Deadline::clock::now() + read_timeout);
    if (!read) {
      // What a daemon says of one block is internal here; all else is about the daemon.
      if (const StatusCode code = read.error().code();
          code != StatusCode::internal && code != StatusCode::corruption)
        return error(read.error());
      if (outcome.gone++ == 0) outcome.why_gone = read.error().message();
      continue;
    }
    if (!written_spaces.contains(block->space)) {
      const auto space = std::ranges::find(*spaces, block->space, &SpaceDescriptor::digest);
      if (space == spaces->end()) {
        if (outcome.gone++ == 0) outcome.why_gone = "their space came while spaces were listed";
        continue;
      }
      if (Status status = writer->add(*space); !status.ok()) return error(status);
      written_spaces.insert(block->space);
    }
    if (Status status = writer->add(header_of(*read, now_unix_ms), read->payload, read->checksum);
        !status.ok())
      return error(status);
    written.insert(block->key);
  }
  show();
  if (progress) *progress << "\n";
  // An archive without anything in it is no answer to a daemon that gives nothing away.
  if (written.empty() && outcome.gone > 0)
    return error(StatusCode::failed_precondition, outcome.why_gone);
  outcome.blocks = writer->sum().records;
  outcome.spaces = writer->sum().spaces;
  if (Status status = writer->finish(); !status.ok()) return error(status);
  outcome.bytes = writer->sum().bytes;
  return outcome;
}

}  // namespace terrace::cli
