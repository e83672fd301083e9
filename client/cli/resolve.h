// What a person types for a block or a space, made whole.
#pragma once

#include <string>
#include <vector>

#include "client/cli/pins.h"
#include "client/operator.h"

namespace terrace::cli {

// A key in hexadecimal: whole, or its first `min_key_digits` or more, as tables show them.
// not_found if no block begins with them, invalid_argument if several do or it is no key. A whole
// key is not looked for.
Result<BlockKey> resolve_block(client::OperatorClient& daemon, const std::string& text);

// The same of a block that must be there, whole key or not: else not_found.
Result<BlockKey> resolve_known_block(client::OperatorClient& daemon, const std::string& text);

// A space by its digest, the first digits of it, or its label; "": the only one there is. Errors as
// above.
Result<SpaceDescriptor> resolve_space(client::OperatorClient& daemon, const std::string& text);

// All spaces that are called so, at least one: a model has several where workers differ in tenants,
// adapters or numerics.
Result<std::vector<SpaceDescriptor>> resolve_spaces(client::OperatorClient& daemon,
                                                    const std::string& text);

}  // namespace terrace::cli
