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

// The prefixes that are shown: how many, of how many blocks in all, and how many tokens of each
// run.
constexpr std::size_t max_shown_prefixes = 64;
constexpr std::size_t max_shown_blocks = 4096;
constexpr std::size_t max_shown_tokens = 32;
constexpr std::size_t max_shown_text_bytes = 1024;  // of these
// Blocks looked at for them in one turn, which takes a small part of 1 ms.
constexpr std::size_t prefix_looks_per_turn = 1024;
// Who asks again within this time gets the same.
constexpr std::chrono::seconds prefix_lifetime{2};

// Pins that are shown.
constexpr std::size_t max_shown_pins = 256;

// What is kept to show how it was.
constexpr std::chrono::seconds history_interval{10};
constexpr std::size_t history_samples = 360;

// How often a port that was not to be had is tried again.
constexpr std::chrono::seconds http_retry_interval{1};

}  // namespace terrace::daemon
