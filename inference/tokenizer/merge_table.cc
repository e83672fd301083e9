#include "inference/tokenizer/merge_table.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>

#include "inference/tokenizer/byte_map.h"
#include "inference/tokenizer/quoted.h"

namespace terrace::tokenizer {
namespace {

tl::unexpected<Status> malformed(std::size_t rank, std::string_view merge, const char* what) {
  return error(
      StatusCode::invalid_argument,
      "tokenizer.ggml.merges: entry " + std::to_string(rank) + ", " + quoted(merge) + ", " + what);
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

  // Placed by left symbol, still by rank; then each symbol's merges by right symbol. Of two merges
  // of one pair the first counts.
  std::vector<std::uint32_t> ends(table.size() + 1, 0);
  for (const Entry& entry : entries) ++ends[static_cast<std::size_t>(entry.left) + 1];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<Merge> placed(entries.size());
  for (const Entry& entry : entries)
    placed[ends[static_cast<std::size_t>(entry.left)]++] = entry.merge;
  result.merges_.reserve(entries.size());
  result.offsets_.reserve(table.size() + 1);
  result.offsets_.push_back(0);
  auto begin = placed.begin();
  for (std::size_t left = 0; left < table.size(); ++left) {
    const auto end = placed.begin() + ends[left];
    std::sort(begin, end, [](const Merge& a, const Merge& b) {
      return std::tie(a.right, a.rank) < std::tie(b.right, b.rank);
    });
    std::unique_copy(begin, end, std::back_inserter(result.merges_),
                     [](const Merge& a, const Merge& b) { return a.right == b.right; });
    result.offsets_.push_back(static_cast<std::uint32_t>(result.merges_.size()));
    begin = end;
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
