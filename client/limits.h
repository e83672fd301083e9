// Named limits and times of the client library.
#pragma once

#include <chrono>
#include <cstddef>

namespace terrace::client {

// Reconnecting: the first pause, doubled up to the last, each shortened at random by up to a half
// so that the workers of a host do not come back all at once.
constexpr std::chrono::milliseconds min_reconnect_pause{50};
constexpr std::chrono::milliseconds max_reconnect_pause{2000};

// From connecting to a session with its arena. A daemon that is still recovering takes its time.
constexpr std::chrono::seconds handshake_limit{10};

// After a call has missed its deadline, how long the daemon may take to answer a ping before calls
// are refused at once, so that one request does not pay its budget again and again.
constexpr std::chrono::milliseconds stall_grace{10};

// An arena is touched up to here in the background, piece by piece between calls; what lies beyond
// faults when it is used.
constexpr std::size_t max_populated_bytes = std::size_t{2} << 30;
constexpr std::size_t populate_piece_bytes = std::size_t{8} << 20;

// Seals: blocks of one message, messages without an answer yet, and blocks that wait for their
// turn. Past the last, further ones are given up.
constexpr std::size_t max_blocks_per_seal = 32;
constexpr std::size_t max_unanswered_seals = 8;
constexpr std::size_t max_queued_seal_blocks = 8192;

// How often the client looks whether the last slot of an earlier session is gone.
constexpr std::chrono::milliseconds old_session_interval{250};

// How long a client that is being destroyed lets its last seals and releases go out.
constexpr std::chrono::milliseconds closing_limit{500};

}  // namespace terrace::client
