// `terrace tree`: prefixes as they branch. Blocks that follow one another without a branch are one
// line.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <span>
#include <string>

#include "client/cli/listing.h"

namespace terrace::cli {

// What people read of tokens; may be empty.
using TextOf = std::function<std::string(std::span<const Token>)>;

// The first `limit` lines of each space (0: all). `now_unix_ms` is what ages count from. `text_of`
// may be empty: then the first token ids are shown.
void print_tree(const Listing& listing, std::size_t limit, std::int64_t now_unix_ms,
                const TextOf& text_of, std::ostream& out);
// A JSON object: `spaces`, an array with an object a space, its prefixes nested, and whether it is
// `truncated` because there are more than max_listed_blocks.
void print_tree_json(const Listing& listing, const TextOf& text_of, std::ostream& out);

}  // namespace terrace::cli
