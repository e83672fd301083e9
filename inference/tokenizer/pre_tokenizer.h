// Cuts text into the pieces within which byte-level BPE merges.
#pragma once

#include <string_view>
#include <vector>

namespace terrace::tokenizer {

// Each function appends views into `text` that, one after another, are all of it. Matchers are
// written by hand, linear in the text, and take the first alternative that matches, as the
// expressions in front of them do. Any bytes are accepted.

// (?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
void pre_tokenize_llama3(std::string_view text, std::vector<std::string_view>& pieces);

// First \p{N}; then each match and each gap between matches by itself:
// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)
// What nothing matches is a piece too.
void pre_tokenize_smollm(std::string_view text, std::vector<std::string_view>& pieces);

}  // namespace terrace::tokenizer
