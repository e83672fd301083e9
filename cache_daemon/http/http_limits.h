// What whoever speaks HTTP to the daemon may take of it.
#pragma once

#include <chrono>
#include <cstddef>

namespace terrace::daemon {

// Connections at one time; further ones are closed at once.
constexpr std::size_t max_http_connections = 32;

// How long a client may take to send a request, to read its answer, and to think of the next one.
constexpr std::chrono::seconds http_request_timeout{5};
constexpr std::chrono::seconds http_answer_timeout{10};
constexpr std::chrono::seconds http_idle_timeout{30};

// How often a port that was not to be had is tried again.
constexpr std::chrono::seconds http_retry_interval{1};

}  // namespace terrace::daemon
