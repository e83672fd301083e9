// Finds the tokens whose texts stand for themselves in a text.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/block_key.h"
#include "inference/tokenizer/token_table.h"

namespace terrace::tokenizer {

// A part of a text: a special token, or text without any.
struct Fragment {
  std::string_view text;
  std::optional<Token> special;
};

class SpecialTokens {
 public:
  // Refers to `table`, which must outlive it.
  explicit SpecialTokens(const TokenTable& table);

  // The fragments of `text` in order, none empty. User-defined tokens are always found, control and
  // unknown ones if `parse_special`. A longer text goes first wherever it stands, then the lower
  // id, then the one further left. Fragments are views into `text`.
  std::vector<Fragment> split(std::string_view text, bool parse_special) const;

 private:
  struct Special {
    std::string_view text;
    Token id;
    bool always;
  };

  std::array<std::vector<Special>, 256> by_first_byte_;
};

}  // namespace terrace::tokenizer
