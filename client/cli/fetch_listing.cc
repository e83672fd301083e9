#include "client/cli/fetch_listing.h"

#include <utility>

namespace terrace::cli {

ListedBlock to_listed_block(const client::BlockListing& from) {
  ListedBlock block;
  block.space = from.space;
  block.key = from.key;
  block.parent = from.parent;
  block.depth = from.depth;
  block.tokens = static_cast<std::uint32_t>(from.tokens.size());
  block.tiers = from.tiers;
  block.bytes = from.bytes;
  block.holders = from.holders;
  block.recency = from.recency;
  block.uses = from.uses;
  block.created_unix_ms = from.created_unix_ms;
  return block;
}

Result<bool> visit_blocks(client::OperatorClient& daemon, std::chrono::milliseconds call_timeout,
                          const std::function<bool(const client::BlockListing&)>& visit) {
  std::optional<BlockKey> from;
  do {
    const auto page =
        daemon.list_blocks(from, blocks_per_page, client::Deadline::clock::now() + call_timeout);
    if (!page) return error(page.error());
    for (const client::BlockListing& block : page->blocks)
      if (!visit(block)) return false;
    if (from && page->next && *page->next <= *from)
      return error(StatusCode::internal, "the daemon's listing goes round in circles");
    from = page->next;
  } while (from);
  return true;
}

Result<SpaceLabels> fetch_space_labels(client::OperatorClient& daemon,
                                       std::chrono::milliseconds call_timeout) {
  const auto spaces = daemon.list_spaces(client::Deadline::clock::now() + call_timeout);
  if (!spaces) return error(spaces.error());
  SpaceLabels labels;
  for (const SpaceDescriptor& space : *spaces) labels.emplace(space.digest(), space.label);
  return labels;
}

Result<Listing> fetch_listing(client::OperatorClient& daemon,
                              std::chrono::milliseconds call_timeout) {
  Listing listing;
  const auto complete = visit_blocks(daemon, call_timeout, [&](const client::BlockListing& block) {
    if (listing.blocks.size() == max_listed_blocks) return false;
    listing.blocks.push_back(to_listed_block(block));
    listing.blocks.back().token_ids = block.tokens;
    return true;
  });
  if (!complete) return error(complete.error());
  listing.complete = *complete;
  auto labels = fetch_space_labels(daemon, call_timeout);
  if (!labels) return error(labels.error());
  listing.space_labels = std::move(*labels);
  return listing;
}

}  // namespace terrace::cli
