// Brings a listing from the daemon, page by page.
#pragma once

#include <chrono>

#include "client/cli/listing.h"
#include "client/operator.h"
#include "core/status.h"

namespace terrace::cli {

// A larger cache is listed in part: keys are digests, so what is left out is a fair sample.
constexpr std::size_t max_listed_blocks = 200'000;
constexpr std::uint32_t blocks_per_page = 1000;

// The blocks in no order. Each round trip takes `call_timeout` at most. Errors as those of
// client::OperatorClient.
Result<Listing> fetch_listing(client::OperatorClient& daemon,
                              std::chrono::milliseconds call_timeout);

}  // namespace terrace::cli
