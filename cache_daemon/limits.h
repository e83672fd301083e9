// What a client may ask of the daemon, as far as it is no option (config/daemon_config.h has
// those).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace terrace::daemon {

// Slots that one reserve may ask for beyond its keys.
constexpr std::size_t max_unnamed_per_call = 4096;

// Blocks of one page of a listing: no turn of the deciding thread may take longer than 1 ms.
constexpr std::size_t max_blocks_per_page = 256;

// Blocks that one lease may ask for in all, each time counted: the cache notes every hold. As many
// as limits.max_keys_per_call allows at most.
constexpr std::size_t max_blocks_per_lease = 1'000'000;

// Puts and gets of one session that are under way; past it further ones are refused.
constexpr std::size_t max_transfers_per_session = 64;

// Staged blocks of one put or get, and what one message carries of a staging region: copying it
// must not take the deciding thread long.
constexpr std::size_t max_blocks_per_transfer = 256;
constexpr std::size_t max_staging_piece_bytes = 256 << 10;

// How long an acquire may wait for what another session computes. A prompt that takes longer is
// waited for again.
constexpr std::chrono::milliseconds max_acquire_wait{60'000};

// What part of the time that a caller waits for an answer may go to waiting for Redis: to a match,
// whose caller has more to do, and to an acquire.
constexpr double lookup_budget_part = 0.25;
constexpr double load_budget_part = 0.875;

// A client's name is for the log.
constexpr std::size_t max_client_name_bytes = 64;

// Clients over TCP that have not logged in, as a part of limits.max_connections: strangers must not
// shut out others. And handshakes of TLS at one time.
constexpr std::size_t strangers_divisor = 4;
constexpr std::size_t max_handshakes_at_once = 64;

// Before login: one message, the answers that a client has not read, and logins that fail before
// the connection is cut. Each of those is answered after a pause.
constexpr std::size_t max_message_bytes_before_login = 64 * 1024;
constexpr std::size_t max_queued_bytes_before_login = 64 * 1024;
constexpr std::size_t max_failed_logins = 2;
constexpr std::chrono::milliseconds failed_login_pause{250};

// Earlier sessions that one touchesNothing may name.
constexpr std::size_t max_sessions_per_call = 1024;

// How long a pin may be for; longer ones have no end.
constexpr std::uint64_t max_pin_ttl_ms = 10ull * 366 * 24 * 3600 * 1000;

// Prefixes that one operator's connection may warm at the same time.
constexpr std::size_t max_warms_at_once = 4;

// What one answer brings of a block's payload.
constexpr std::size_t max_piece_bytes = std::size_t{1} << 20;

// What one call that verifies looks at, at most, and what it reads before it stops.
constexpr std::size_t max_blocks_per_verify = 256;
constexpr std::uint64_t max_bytes_per_verify = std::uint64_t{64} << 20;

// Payloads that operators' connections keep in memory, all together: each is of one block.
constexpr std::size_t max_operator_payloads = 32;

// Blocks that one operator's connection may be reading at the same time.
constexpr std::size_t max_block_reads_at_once = 4;

// How long a warm waits for Redis to say what it has, and then to give it: nobody's request waits.
constexpr std::chrono::milliseconds warm_lookup_wait{5'000};
constexpr std::chrono::milliseconds warm_load_wait{30'000};

// How long accepting pauses after it failed, say for want of descriptors.
constexpr std::chrono::milliseconds accept_pause{100};

// Room that must be left beside the arenas of an earlier daemon and of this one: this fraction of
// the latter, for what workers take of memory meanwhile.
constexpr std::uint64_t overlap_headroom_divisor = 8;

// How often the cache gets to do its work by time.
constexpr std::chrono::milliseconds tick_interval{100};

// How often a drain says how far it is.
constexpr std::chrono::seconds drain_progress_interval{1};

}  // namespace terrace::daemon
