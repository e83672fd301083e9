// What a simulation is told, and what it tells.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::sim {

// Which faults may happen. A run draws some of those that are allowed.
struct Faults {
  bool copies_fail = true;  // the accelerator answers with an error
  bool copies_flip = true;  // a bit flips on the way
  bool disk_fails = true;   // reads and writes answer with errors, also for a while in a row
  bool disk_rots = true;    // records change where they lie
  bool disk_full = true;    // no room although the cap is not reached
  bool scribbles = true;    // workers write over sealed blocks, or seal what is not what they say
  bool crashes = true;      // the process ends at once, what is not durable may be lost
  bool index_fails = true;  // the index of a real store cannot be written for a moment
  bool index_lost = true;   // and is gone at a start
  // Of the tier that other hosts share: it does not answer, refuses or is away; loses values;
  // values change where they lie.
  bool remote_fails = true, remote_forgets = true, remote_rots = true;

  static constexpr std::array<std::string_view, 12> names = {
      "copies_fail", "copies_flip", "disk_fails", "disk_rots",    "disk_full",      "scribbles",
      "crashes",     "index_fails", "index_lost", "remote_fails", "remote_forgets", "remote_rots"};
  std::array<bool*, 12> all() {
    return {&copies_fail, &copies_flip, &disk_fails, &disk_rots,    &disk_full,      &scribbles,
            &crashes,     &index_fails, &index_lost, &remote_fails, &remote_forgets, &remote_rots};
  }
  bool is_remote(const bool* fault) const {
    return fault == &remote_fails || fault == &remote_forgets || fault == &remote_rots;
  }
  // A copy of a block may be lost or unreadable, so that holes come about.
  bool lose_blocks() const {
    return copies_fail || copies_flip || disk_fails || disk_rots || disk_full || scribbles ||
           index_fails || index_lost || remote_fails || remote_forgets || remote_rots;
  }
};

// What the clients do. Kinds can be left out, to shrink a run that fails.
enum class Action : std::uint8_t {
  match,
  acquire,
  reserve,
  seal,
  release,
  leave,  // a session is abandoned, or ends
  scribble,
  misuse,  // calls that make no sense
  rot,
  jump,  // the clock jumps
  restart,
  crash,
  pin,
  unpin,
  drop,   // a space
  evict,  // a prefix's tail
};
constexpr std::size_t action_count = 16;
constexpr std::array<std::string_view, action_count> action_names = {
    "match", "acquire", "reserve", "seal",  "release", "leave", "scribble", "misuse",
    "rot",   "jump",    "restart", "crash", "pin",     "unpin", "drop",     "evict"};

enum class DiskKind : std::uint8_t {
  by_seed,  // any of those below but `store`
  none,
  fake,   // requests complete in any order; fast
  store,  // the real store over simulated files
};

struct RunOptions {
  std::uint64_t seed = 1;
  std::uint64_t operations = 10'000;
  std::uint64_t check_every = 1;  // operations
  Faults faults;
  DiskKind disk = DiskKind::by_seed;
  std::array<bool, action_count> without{};
};

// What happened: shows that a run was not idle.
struct Tally {
  std::uint64_t operations = 0, checks = 0;
  std::uint64_t gets = 0;  // blocks acquired
  std::uint64_t from_device = 0, from_host = 0, from_disk = 0;
  // Of the tier that other hosts share.
  std::uint64_t from_redis = 0, lookups = 0, late_lookups = 0, cut_loads = 0, shared = 0;
  std::uint64_t seals = 0, duplicates = 0, refused_seals = 0;
  std::uint64_t partial_matches = 0;
  std::uint64_t refused_claims = 0, awaited_blocks = 0, expired_waits = 0;  // single flight
  std::uint64_t lost_indices = 0;
  std::uint64_t evicted_prefixes = 0, warms = 0;
  std::uint64_t pins = 0, drops = 0;
  std::uint64_t restarts = 0, drains = 0, crashes = 0, recovered_blocks = 0;
  std::uint64_t corruptions = 0, failures = 0;  // as the cache counted them
  std::uint64_t evictions = 0, declined_loads = 0, scribbles = 0, rotten_records = 0;

  void add(const Tally& other);
  std::string json() const;
};

struct RunResult {
  std::string failure;  // empty: every check held
  Tally tally;          // its operations say at which step a run failed
  // Follows from everything that the cache answered: two runs of one seed agree in it.
  std::uint64_t fingerprint = 0;
  std::string profile;  // what was simulated, for people
};

// Runs one seed. The result depends on the options alone.
RunResult run(const RunOptions& options);

// As run(); where that fails, tries to show the same with fewer operations and kinds of them.
// `command` is what shows the failure again.
RunResult run_and_shrink(const RunOptions& options, std::string& command);

std::string command_of(const RunOptions& options);

}  // namespace terrace::sim
