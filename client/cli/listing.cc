#include "client/cli/listing.h"

#include <algorithm>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>
#include <tuple>

#include "client/cli/text.h"
#include "core/bytes.h"

namespace terrace::cli {
namespace {

// Enough of a key to tell blocks apart by eye; --json has all of it.
constexpr std::size_t shown_key_digits = 12;

std::string short_key(const BlockKey& key) { return key.hex().substr(0, shown_key_digits); }

std::string label_in(const SpaceLabels& labels, const BlockKey& space) {
  const auto label = labels.find(space);
  return label == labels.end() ? "" : label->second;
}

std::string joined_tiers(const std::array<bool, tier_count>& tiers) {
  std::string joined;
  for (const Tier tier : all_tiers)
    if (tiers[static_cast<std::size_t>(tier)])
      joined += (joined.empty() ? "" : "+") + std::string(to_string(tier));
  return joined.empty() ? "-" : joined;
}

std::size_t shown(const Listing& listing, std::size_t limit) {
  return limit == 0 ? listing.blocks.size() : std::min(limit, listing.blocks.size());
}

void print_space_heading(const Listing& listing, std::size_t first, std::ostream& out) {
  const BlockKey& space = listing.blocks[first].space;
  std::size_t blocks = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < listing.blocks.size() && listing.blocks[i].space == space; ++i) {
    ++blocks;
    bytes += listing.blocks[i].bytes;
  }
  const std::string label = label_in(listing.space_labels, space);
  out << "space " << short_key(space) << (label.empty() ? "" : " (" + printable(label) + ")")
      << ": " << counted(blocks, "block") << ", " << format_bytes(bytes) << "\n";
}

}  // namespace

void sort_by_prefix(std::vector<ListedBlock>& blocks) {
  const auto in_order = [](const ListedBlock* a, const ListedBlock* b) {
    return std::tie(a->space, a->depth, a->key) < std::tie(b->space, b->depth, b->key);
  };
  std::unordered_map<BlockKey, std::vector<const ListedBlock*>> children;
  std::unordered_map<BlockKey, const ListedBlock*> by_key;
  for (const ListedBlock& block : blocks) by_key.emplace(block.key, &block);
  std::vector<const ListedBlock*> stack;  // what is still to be visited, the next one last
  for (const ListedBlock& block : blocks) {
    const bool has_parent = block.depth > 0 && by_key.contains(block.parent);
    (has_parent ? children[block.parent] : stack).push_back(&block);
  }
  std::sort(stack.begin(), stack.end(), in_order);
  std::reverse(stack.begin(), stack.end());

  std::vector<ListedBlock> sorted;
  sorted.reserve(blocks.size());
  while (!stack.empty()) {
    const ListedBlock* block = stack.back();
    stack.pop_back();
    sorted.push_back(*block);
    const auto followers = children.find(block->key);
    if (followers == children.end()) continue;
    std::sort(followers->second.begin(), followers->second.end(), in_order);
    stack.insert(stack.end(), followers->second.rbegin(), followers->second.rend());
  }
  blocks = std::move(sorted);
}

void print_listing(const Listing& listing, std::size_t limit, std::ostream& out) {
  if (listing.blocks.empty()) {
    out << "the cache is empty\n";
    return;
  }
  const std::size_t count = shown(listing, limit);
  for (std::size_t i = 0; i < count; ++i) {
    const ListedBlock& block = listing.blocks[i];
    if (i == 0 || block.space != listing.blocks[i - 1].space) {
      if (i > 0) out << "\n";
      print_space_heading(listing, i, out);
      out << std::left << std::setw(14) << "key" << std::setw(14) << "parent" << std::right
          << std::setw(6) << "depth" << std::setw(8) << "tokens" << std::setw(10) << "size"
          << std::setw(9) << "holders"
          << "  tiers\n";
    }
    out << std::left << std::setw(14) << short_key(block.key) << std::setw(14)
        << (block.depth == 0 ? "-" : short_key(block.parent)) << std::right << std::setw(6)
        << block.depth << std::setw(8) << block.tokens << std::setw(10) << format_bytes(block.bytes)
        << std::setw(9) << block.holders << "  " << joined_tiers(block.tiers) << "\n";
  }
  if (count < listing.blocks.size())
    out << "and " << listing.blocks.size() - count << " more; --limit 0 shows all\n";
  if (!listing.complete) out << "the cache holds more blocks than are listed here\n";
}

void TableRows::add(const ListedBlock& block) {
  if (rows_++ == 0)
    out_ << std::left << std::setw(14) << "key" << std::right << std::setw(6) << "depth"
         << std::setw(8) << "tokens" << std::setw(10) << "size" << std::setw(9) << "holders"
         << std::setw(6) << "uses" << std::setw(9) << "used" << std::setw(9) << "made"
         << "  tiers             space\n";
  const std::string label = label_in(labels_, block.space);
  out_ << std::left << std::setw(14) << short_key(block.key) << std::right << std::setw(6)
       << block.depth << std::setw(8) << block.tokens << std::setw(10) << format_bytes(block.bytes)
       << std::setw(9) << block.holders << std::setw(6) << block.uses << std::setw(9)
       << format_age(now_unix_ms_ - static_cast<std::int64_t>(block.recency)) << std::setw(9)
       << format_age(now_unix_ms_ - block.created_unix_ms) << "  " << std::left << std::setw(16)
       << joined_tiers(block.tiers) << "  "
       << (label.empty() ? short_key(block.space) : printable(label)) << "\n";
}

void TableRows::end(std::uint64_t left_out) {
  if (left_out > 0)
    out_ << "and " << left_out << " more; --limit 0 shows all\n";
  else if (rows_ == 0)
    out_ << "there are no such blocks\n";
}

void JsonRows::add(const ListedBlock& block) {
  nlohmann::ordered_json tiers = nlohmann::ordered_json::array();
  for (const Tier tier : all_tiers)
    if (block.tiers[static_cast<std::size_t>(tier)]) tiers.push_back(to_string(tier));
  const nlohmann::ordered_json object = {
      {"key", block.key.hex()},
      {"parent",
       block.depth == 0 ? nlohmann::ordered_json() : nlohmann::ordered_json(block.parent.hex())},
      {"space", block.space.hex()},
      {"space_label", label_in(labels_, block.space)},
      {"depth", block.depth},
      {"tokens", block.tokens},
      {"tiers", tiers},
      {"bytes", block.bytes},
      {"holders", block.holders},
      {"uses", block.uses},
      {"last_used_unix_ms", block.recency},
      {"created_unix_ms", block.created_unix_ms}};
  // A label is text of a client: what is not UTF-8 in it must not end the program.
  out_ << (rows_++ == 0 ? "[\n" : ",\n")
       << object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void JsonRows::end(std::uint64_t) { out_ << (rows_ == 0 ? "[]\n" : "\n]\n"); }

}  // namespace terrace::cli
