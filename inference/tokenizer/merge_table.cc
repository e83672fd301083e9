#include "inference/tokenizer/merge_table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "inference/tokenizer/byte_map.h"

namespace terrace::tokenizer {
namespace {

tl::unexpected<Status> malformed(std::size_t rank, std::string_view merge, const char* what) {
  return error(StatusCode::invalid_argument, "tokenizer.ggml.merges: entry " +
                                                 std::to_string(rank) + ", \"" +
                                                 std::string(merge) + "\", " + what);
}

}  // namespace

Result<MergeTable> MergeTable::create(std::span<const std::string_view> merges,
                                      const TokenTable& table) {
  if (merges.size() > std::numeric_limits<std::uint32_t>::max()) {
    return error(StatusCode::invalid_argument, "tokenizer.ggml.merges has too many entries");
  }
  MergeTable result;
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    result.bytes_.push_back(table.find({&c, 1}).value_or(static_cast<Symbol>(table.size()) + byte));
  }

  struct Entry {
    Symbol left;
    Merge merge;
  };
  std::vector<Entry> entries;
  entries.reserve(merges.size());
  std::string bytes;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view text = merges[rank];
    // Not the first character: a space may be one of the two texts in vocabularies of old.
    const std::size_t space = text.find(' ', 1);
    if (space == std::string_view::npos) return malformed(rank, text, "is not two texts");
    bytes.clear();
    const bool left_mapped = append_mapped_bytes(text.substr(0, space), bytes);
    const std::size_t left_bytes = bytes.size();
    if (!left_mapped || !append_mapped_bytes(text.substr(space + 1), bytes)) {
      return malformed(rank, text, "holds a character that stands for no byte");
    }
    const std::string_view whole = bytes;
    const auto left = table.find(whole.substr(0, left_bytes));
    const auto right = table.find(whole.substr(left_bytes));
    const auto product = table.find(whole);
    if (!left || !right) return malformed(rank, text, "takes a text that is no token");
    if (!product) return malformed(rank, text, "makes a text that is no token");
    entries.push_back({*left, {*right, static_cast<std::uint32_t>(rank), *product}});
    if (!table.is_plain(*product)) result.parts_.emplace(*product, Parts{*left, *right});
  }

  // Of two merges of the same pair the first counts.
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.left, a.merge.right, a.merge.rank) <
           std::tie(b.left, b.merge.right, b.merge.rank);
  });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const Entry& a, const Entry& b) {
                              return a.left == b.left && a.merge.right == b.merge.right;
                            }),
                entries.end());
  result.offsets_.assign(table.size() + 1, 0);
  result.merges_.reserve(entries.size());
  for (const Entry& entry : entries) {
    ++result.offsets_[static_cast<std::size_t>(entry.left) + 1];
    result.merges_.push_back(entry.merge);
  }
  for (std::size_t i = 1; i < result.offsets_.size(); ++i) {
    result.offsets_[i] += result.offsets_[i - 1];
  }
  return result;
}

const Merge* MergeTable::find(Symbol left, Symbol right) const {
  const auto i = static_cast<std::size_t>(left);
  if (i + 1 >= offsets_.size()) return nullptr;  // a byte without a token
  const Merge* const begin = merges_.data() + offsets_[i];
  const Merge* const end = merges_.data() + offsets_[i + 1];
  const Merge* const found = std::lower_bound(
      begin, end, right, [](const Merge& merge, Symbol symbol) { return merge.right < symbol; });
  return found != end && found->right == right ? found : nullptr;
}

const MergeTable::Parts* MergeTable::parts(Symbol special) const {
  const auto found = parts_.find(special);
  return found == parts_.end() ? nullptr : &found->second;
}

}  // namespace terrace::tokenizer
