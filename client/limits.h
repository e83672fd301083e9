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

// The most that a daemon may have one request wait for the cache, whatever it says.
constexpr std::chrono::milliseconds max_request_budget{60'000};

// After a call has missed its deadline, how long the daemon may take to answer a ping before calls
// are refused at once, so that one request does not pay its budget again and again.
constexpr std::chrono::milliseconds stall_grace{10};

// A fresh mapping faults at each page's first touch, so pages are touched ahead of use: the head of
// the arena, where a daemon puts its first blocks, piece by piece before the connection is used,
// and the rest in the background. What lies beyond faults when it is used.
constexpr std::size_t populate_piece_bytes = std::size_t{4} << 20;
constexpr std::size_t populated_head_bytes = std::size_t{256} << 20;
constexpr std::size_t max_populated_bytes = std::size_t{4} << 30;

// Seals: blocks of one message, messages without an answer yet, and blocks that wait for their
// turn. Past the last, further ones are given up.
constexpr std::size_t max_blocks_per_seal = 32;
constexpr std::size_t max_unanswered_seals = 8;
constexpr std::size_t max_queued_seal_blocks = 8192;

// A put or a get goes piece by piece: blocks of one piece (a daemon refuses more), its
// bytes unless a single block is larger, and the pieces of one call that are on their way. Each is
// at most half of the staging region.
constexpr std::size_t max_blocks_per_piece = 256;
constexpr std::uint64_t max_transfer_piece_bytes = std::uint64_t{8} << 20;
constexpr std::size_t max_pieces_per_transfer = 4;
// Messages of payload of one piece that are under way where no memory is shared.
constexpr std::size_t max_payload_messages = 4;

// How often the client looks whether the last slot of an earlier session is gone.
constexpr std::chrono::milliseconds old_session_interval{250};

// Earlier sessions that one message says this of; a daemon refuses more than 1024.
constexpr std::size_t max_disowned_per_call = 256;

// How long a client that is being destroyed lets its last seals and releases go out.
constexpr std::chrono::milliseconds closing_limit{500};

}  // namespace terrace::client
