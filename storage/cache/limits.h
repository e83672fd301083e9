// Named limits of the cache: what is under way at a time, what one turn does at most, how long it
// waits before it tries again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::storage {

constexpr std::size_t max_disk_reads_in_flight = 64;
constexpr std::size_t max_disk_writes_in_flight = 128;
constexpr std::uint64_t max_disk_write_bytes_in_flight = 64ull << 20;
constexpr std::size_t max_host_demotions_in_flight = 16;
constexpr std::int64_t first_retry_ns = 100'000'000;
constexpr std::int64_t longest_retry_ns = 10'000'000'000;
// After so many failed writes in a row the disk counts as failing: copies that only device or host
// have may be evicted where room is needed, as if there were no disk, until a write succeeds again.
constexpr std::uint32_t failures_until_failing = 3;
// A disk that says so often in a row that it has no room, although blocks were evicted from it, has
// another problem: it is left alone for a while instead of being emptied.
constexpr std::uint32_t max_no_space_answers = 6;
// With the time between two ticks and what the disk takes (recency_commit_ns there), a use is on
// the disk within a second.
constexpr std::int64_t recency_flush_ns = 250'000'000;
// What one call does at most of work that can wait.
constexpr std::size_t max_evictions_a_turn = 256;
constexpr std::size_t max_touches_a_turn = 4096;
// Eviction keeps this part of the disk free, so that a write need not wait for one.
constexpr double disk_free_fraction = 0.02;
// A few blocks move at a time, out of one slab; only so many slabs are looked at for one whose
// blocks may all move.
constexpr std::size_t max_moves_in_flight = 16;
constexpr std::size_t max_slabs_looked_at = 8;
// Blocks of all spaces that a drop looks at in one turn.
constexpr std::size_t max_drop_looks_a_turn = 4096;
// Blocks that an eviction of a prefix takes away in one turn.
constexpr std::size_t max_prefix_evictions_a_turn = 512;
// Copies of payloads out of the cache for operators: under way, each with memory for a block, and
// waiting for that.
constexpr std::size_t max_block_reads_in_flight = 4;
constexpr std::size_t max_block_reads_waiting = 64;
// Blocks from elsewhere whose payload is on its way, each in memory of its own.
constexpr std::size_t max_imports_in_flight = 32;
// What one turn does of looking for blocks that are too old, and how long it rests at the end.
constexpr std::size_t max_age_looks_a_turn = 4096;
constexpr std::size_t max_expired_a_turn = 256;
constexpr std::int64_t age_pass_pause_ns = 10'000'000'000;
constexpr const char* drop_note_prefix = "drop/";
// Pins are looked through now and then, and device and host must have room for others.
constexpr std::size_t max_pins = 1024;
constexpr double max_pinned_arena_fraction = 0.5;
constexpr const char* pin_note_prefix = "pin/";
// Questions to Redis under way, those of shares included, and the keys of one.
constexpr std::size_t max_lookups_in_flight = 64;
constexpr std::size_t max_keys_a_lookup = 4096;
// Of an answer, what one turn takes in: each block's key is computed anew.
constexpr std::size_t max_beliefs_a_turn = 512;
// Blocks that are known only because Redis was said to have them, and for how long after it was
// asked.
constexpr std::size_t max_remote_only_blocks = 16384;
constexpr std::int64_t remote_belief_ns = 10'000'000'000;
constexpr std::size_t max_forgotten_a_turn = 1024;
// How long a load from Redis may take where an acquire does not say.
constexpr std::int64_t default_remote_load_ns = 1'000'000'000;
// Prefixes waiting to be given to Redis: beyond it the oldest are forgotten until their next use.
constexpr std::size_t max_queued_shares = 4096;
constexpr std::size_t max_keys_a_share = 1024;  // at a time
constexpr std::size_t max_remote_writes_in_flight = 64;
constexpr std::uint64_t max_remote_write_bytes_in_flight = 32ull << 20;
constexpr std::int64_t share_lookup_ns = 1'000'000'000;
// Holes in what Redis has of a prefix that are looked for before all behind the last is written.
constexpr std::size_t max_asks_a_share = 8;
// What is used is looked for in Redis anew after so long, one prefix at a time, not more often than
// this.
constexpr std::int64_t share_recheck_ns = 60'000'000'000;
constexpr std::int64_t share_recheck_pause_ns = 50'000'000;
constexpr std::size_t max_rechecked_prefixes = 4096;
// The name of the DiskNote that keeps what was spent of the budget of writes.
constexpr const char* write_budget_note = "write_budget";

}  // namespace terrace::storage
