// Brings a listing from the daemon, page by page.
#pragma once

#include <chrono>
#include <functional>

#include "client/cli/listing.h"
#include "client/operator.h"
#include "core/status.h"

namespace terrace::cli {

// A larger cache is listed in part: keys are digests, so what is left out is a fair sample.
constexpr std::size_t max_listed_blocks = 200'000;
constexpr std::uint32_t blocks_per_page = 1000;

// Calls `visit` with each block, in the order of keys, until it returns false: then the answer is
// false, and there may be more. Each round trip takes `call_timeout` at most. Errors as those of
// client::OperatorClient.
Result<bool> visit_blocks(client::OperatorClient& daemon, std::chrono::milliseconds call_timeout,
                          const std::function<bool(const client::BlockListing&)>& visit);

// Without the ids of its tokens.
ListedBlock to_listed_block(const client::BlockListing& from);

// The blocks in no order, with their tokens. Errors as above.
Result<Listing> fetch_listing(client::OperatorClient& daemon,
                              std::chrono::milliseconds call_timeout);

Result<SpaceLabels> fetch_space_labels(client::OperatorClient& daemon,
                                       std::chrono::milliseconds call_timeout);

}  // namespace terrace::cli
