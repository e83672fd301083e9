// The seam between the two ways to encode text that holds no special token.
#pragma once

#include <string_view>
#include <vector>

#include "core/block_key.h"

namespace terrace::tokenizer {

class PlainEncoder {
 public:
  virtual ~PlainEncoder() = default;
  // Appends the ids of `text`. `opens` says that it is the first of a text or follows a special
  // token. Thread-safe.
  virtual void encode(std::string_view text, bool opens, std::vector<Token>& ids) const = 0;
};

}  // namespace terrace::tokenizer
