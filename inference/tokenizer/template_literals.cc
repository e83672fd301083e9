#include "inference/tokenizer/template_literals.h"

#include <algorithm>
#include <cstddef>

namespace terrace::tokenizer {
namespace {

char unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    default:
      return c;
  }
}

// The literal whose quote is at source[offset]; offset moves behind its closing quote.
std::string read_literal(std::string_view source, std::size_t& offset) {
  const char quote = source[offset++];
  std::string literal;
  for (; offset < source.size(); ++offset) {
    const char c = source[offset];
    if (c == quote) {
      ++offset;
      break;
    }
    const bool escape = c == '\\' && offset + 1 < source.size();
    literal.push_back(escape ? unescaped(source[++offset]) : c);
  }
  return literal;
}

}  // namespace

std::vector<std::string> template_literals(std::string_view source) {
  std::vector<std::string> literals;
  for (std::size_t offset = 0; offset < source.size();) {
    std::size_t opened =
        std::min({source.find("{{", offset), source.find("{%", offset), source.find("{#", offset)});
    opened = std::min(opened, source.size());
    if (opened > offset) literals.emplace_back(source.substr(offset, opened - offset));
    if (opened == source.size()) break;
    const char kind = source[opened + 1];
    offset = opened + 2;
    if (kind == '#') {
      const std::size_t closed = source.find("#}", offset);
      offset = closed == std::string_view::npos ? source.size() : closed + 2;
      continue;
    }
    const std::string_view closing = kind == '{' ? "}}" : "%}";
    while (offset < source.size()) {
      if (source.substr(offset).starts_with(closing)) {
        offset += closing.size();
        break;
      }
      if (source[offset] == '\'' || source[offset] == '"') {
        literals.push_back(read_literal(source, offset));
      } else {
        ++offset;
      }
    }
  }
  return literals;
}

}  // namespace terrace::tokenizer
