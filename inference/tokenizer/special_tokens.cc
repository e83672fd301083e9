#include "inference/tokenizer/special_tokens.h"

#include <algorithm>
#include <cstddef>
#include <tuple>

namespace terrace::tokenizer {

SpecialTokens::SpecialTokens(const TokenTable& table) {
  for (Token id = 0; table.contains(id); ++id) {
    const std::string_view text = table.bytes(id);
    if (table.is_plain(id) || text.empty()) continue;
    by_first_byte_[static_cast<unsigned char>(text[0])].push_back(
        {text, id, table.type(id) == TokenType::user_defined});
  }
}

std::vector<Fragment> SpecialTokens::split(std::string_view text, bool parse_special) const {
  struct Occurrence {
    std::size_t begin, bytes;
    Token id;
  };
  std::vector<Occurrence> occurrences;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    for (const Special& special : by_first_byte_[static_cast<unsigned char>(text[begin])]) {
      if ((special.always || parse_special) && text.substr(begin).starts_with(special.text)) {
        occurrences.push_back({begin, special.text.size(), special.id});
      }
    }
  }

  std::vector<Occurrence> taken;
  if (!occurrences.empty()) {
    std::sort(occurrences.begin(), occurrences.end(), [](const auto& a, const auto& b) {
      return std::tie(b.bytes, a.id, a.begin) < std::tie(a.bytes, b.id, b.begin);
    });
    // What was taken before is at least as long: it covers the first or the last byte of whatever
    // it overlaps.
    std::vector<bool> covered(text.size());
    for (const Occurrence& occurrence : occurrences) {
      const std::size_t end = occurrence.begin + occurrence.bytes;
      if (covered[occurrence.begin] || covered[end - 1]) continue;
      std::fill(covered.begin() + static_cast<std::ptrdiff_t>(occurrence.begin),
                covered.begin() + static_cast<std::ptrdiff_t>(end), true);
      taken.push_back(occurrence);
    }
    std::sort(taken.begin(), taken.end(),
              [](const auto& a, const auto& b) { return a.begin < b.begin; });
  }

  std::vector<Fragment> fragments;
  std::size_t done = 0;
  for (const Occurrence& occurrence : taken) {
    if (occurrence.begin > done) {
      fragments.push_back({text.substr(done, occurrence.begin - done), std::nullopt});
    }
    fragments.push_back({text.substr(occurrence.begin, occurrence.bytes), occurrence.id});
    done = occurrence.begin + occurrence.bytes;
  }
  if (done < text.size()) fragments.push_back({text.substr(done), std::nullopt});
  return fragments;
}

}  // namespace terrace::tokenizer
