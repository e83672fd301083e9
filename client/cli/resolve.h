// What a person types for a block or a space, made whole.
#pragma once

#include <string>

#include "client/operator.h"

namespace terrace::cli {

// The first digits of a key are enough where no other block begins with them.
constexpr std::size_t min_key_digits = 6;

// A key in hexadecimal: whole, or its first digits as tables show them. not_found if no block
// begins with them, invalid_argument if several do or it is no key. A whole key is not looked for.
Result<BlockKey> resolve_block(client::OperatorClient& daemon, const std::string& text);

// A space by its digest, the first digits of it, or its label; "": the only one there is. Errors as
// above.
Result<SpaceDescriptor> resolve_space(client::OperatorClient& daemon, const std::string& text);

}  // namespace terrace::cli
