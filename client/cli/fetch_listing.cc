#include "client/cli/fetch_listing.h"

#include <utility>

namespace terrace::cli {
namespace {

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
  block.token_ids = from.tokens;
  return block;
}

}  // namespace

Result<Listing> fetch_listing(client::OperatorClient& daemon,
                              std::chrono::milliseconds call_timeout) {
  const auto deadline = [&] { return client::Deadline::clock::now() + call_timeout; };

  Listing listing;
  std::optional<BlockKey> from;
  do {
    const auto page = daemon.list_blocks(from, blocks_per_page, deadline());
    if (!page) return error(page.error());
    for (const client::BlockListing& block : page->blocks)
      listing.blocks.push_back(to_listed_block(block));
    if (from && page->next && *page->next <= *from)
      return error(StatusCode::internal, "the daemon's listing goes round in circles");
    from = page->next;
  } while (from && listing.blocks.size() < max_listed_blocks);
  listing.complete = !from;

  const auto spaces = daemon.list_spaces(deadline());
  if (!spaces) return error(spaces.error());
  for (const SpaceDescriptor& space : *spaces)
    listing.space_labels.emplace(space.digest(), space.label);
  return listing;
}

}  // namespace terrace::cli
