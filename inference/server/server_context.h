// What every connection of the server has to do with.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/compat/http.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "config/worker_config.h"
#include "inference/server/api_keys.h"
#include "inference/server/call_board.h"
#include "inference/server/call_preparer.h"
#include "inference/server/worker_metrics.h"

namespace terrace::inference {

// Named limits of the server; config/worker.toml has those that are options.
constexpr std::chrono::seconds http_request_timeout{30};  // to send a request
constexpr std::chrono::seconds http_idle_timeout{75};     // between requests
// What is read of a body that is refused, so that its sender, who is still sending, gets to know.
constexpr std::chrono::seconds http_refused_body_timeout{5};
constexpr std::size_t http_refused_body_bytes = std::size_t{16} << 20;
constexpr std::chrono::seconds http_write_timeout{60};  // for a client that does not read
constexpr unsigned retry_after_s = 1;                   // told to whoever finds the queue full
// What nginx calls a request whose client hung up: it is counted, and answered to nobody.
constexpr int hung_up_status = 499;

struct HeaderNames {
  kj::HttpHeaderTable::Builder builder;
  kj::HttpHeaderId authorization = builder.add("Authorization");
  kj::HttpHeaderId cache_control = builder.add("Cache-Control");
  kj::HttpHeaderId request_id = builder.add("X-Request-Id");
  kj::HttpHeaderId retry_after = builder.add("Retry-After");
  kj::HttpHeaderId allow = builder.add("Allow");
  kj::Own<kj::HttpHeaderTable> table = builder.build();
};

struct ServerContext {
  kj::Timer& timer;
  kj::UnixEventPort& event_port;
  Scheduler& scheduler;
  CallBoard& board;
  CallPreparer& preparer;
  const config::ServerOptions& options;
  const ApiKeys& keys;
  std::string model;
  std::size_t context_length = 0;
  std::int64_t started_unix_s = 0;
  HeaderNames headers;
  WorkerMetrics metrics;

  std::size_t open_requests = 0;
  std::uint64_t last_request = 0;
  bool draining = false;
  // Fulfilled when nothing is open any more, while draining.
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> drained;
};

}  // namespace terrace::inference
