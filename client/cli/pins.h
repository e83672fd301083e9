// `terrace pins`: what operators hold in the cache.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <vector>

#include "client/operator.h"

namespace terrace::cli {

// A key's first digits are enough where a person names a block.
constexpr std::size_t min_key_digits = 6;

// A whole key in hexadecimal, as `terrace ls --json` shows it. invalid_argument for anything else.
Result<BlockKey> parse_key(std::string_view hex);

// A table for people. `now_unix_ms` is what "expires in" counts from.
void print_pins(const std::vector<client::PinListing>& pins, std::int64_t now_unix_ms,
                std::ostream& out);
// One JSON object.
void print_pin_json(const client::PinListing& pin, std::ostream& out);
// One JSON array with an object a pin.
void print_pins_json(const std::vector<client::PinListing>& pins, std::ostream& out);

}  // namespace terrace::cli
