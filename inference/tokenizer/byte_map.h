// The printable characters that byte-level BPE vocabularies write for bytes.
#pragma once

#include <string>
#include <string_view>

namespace terrace::tokenizer {

// Appends the bytes that `text` stands for: 0x21-7E, A1-AC and AE-FF are written as the character
// of that number, the other 68 in ascending order as U+0100, U+0101, ... False, with `bytes` as it
// was, if a character of `text` stands for no byte.
bool append_mapped_bytes(std::string_view text, std::string& bytes);

}  // namespace terrace::tokenizer
