// What the disk promised: blocks that it acknowledged as durable, and how recent it must know them
// to be. Outlives the lives of the cache. A decorator of the disk sees requests and answers pass.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "storage/disk/disk_tier.h"

namespace terrace::sim {

// How old recency that a crash loses may be.
constexpr std::int64_t max_lost_recency_ns = 1'000'000'000;

class Promises {
 public:
  // Says what went wrong.
  using Complain = std::function<void(const std::string&)>;
  // `served_ns` is a clock that stands still while nothing is served: recency is promised against
  // it.
  Promises(Complain complain, std::function<std::int64_t()> served_ns)
      : complain_(std::move(complain)), served_ns_(std::move(served_ns)) {}

  // The disk, watched. `may_be_lost`: reads may find that what was acknowledged is lost after all,
  // since the records rot.
  std::unique_ptr<storage::DiskTier> watch(std::unique_ptr<storage::DiskTier> disk);

  // A record of this key was made to rot: nothing is promised of it any more.
  void broke(const BlockKey& key) {
    promised_.erase(key);
    being_written_.erase(key);  // it may be the new record
    broken_.insert(key);
  }
  // The bytes of a block change in memory. If they are just being written, the record may be wrong:
  // they were verified before.
  void source_changed(const BlockKey& key) {
    if (being_written_.erase(key) > 0) broken_.insert(key);
  }
  // The block was dropped for good: it must not come back.
  void gone(const BlockKey& key) { asked_for_.erase(key); }
  // The index of the disk is gone: recency and notes with it.
  void index_lost();
  // The index may fail: how recent blocks are is not promised.
  void forgive_recency() { recency_counts_ = false; }
  // A block may lie in two directories for a while.
  void many_directories() { one_directory_ = false; }
  // What a write that failed or a crash left behind may hide a record from a rebuild of the index.
  void forgive_rebuilds() { rebuild_finds_all_ = false; }
  // Writes that found no room, in this life.
  std::uint64_t no_space_answers() const { return no_space_answers_; }
  bool durable(const BlockKey& key) const { return promised_.contains(key); }
  // A use of the block that must be known after a crash, once it is old enough.
  void used(const BlockKey& key, std::int64_t at_served_ns, std::uint64_t recency);
  // The process ended; an orderly end made everything durable that the disk was told.
  void life_ended(bool crash);

 private:
  class Watched;
  struct Told {
    std::int64_t at_served_ns = 0;
    std::uint64_t recency = 0;
    bool to_disk = false;  // else only to the cache
  };
  struct Promise {
    std::uint64_t recency = 0;  // known for certain
    std::vector<Told> told;     // certain when old enough
  };

  void check_notes(const std::vector<storage::DiskNote>& notes);
  void check_recovered(const std::vector<storage::RecoveredBlock>& blocks,
                       std::uint64_t used_bytes);
  void tell(const BlockKey& key, const Told& told);
  void settle(Promise& promise, std::int64_t until_served_ns);

  const Complain complain_;
  const std::function<std::int64_t()> served_ns_;
  bool recency_counts_ = true, rebuilt_ = false, one_directory_ = true, rebuild_finds_all_ = true;
  std::uint64_t no_space_answers_ = 0;
  std::unordered_map<BlockKey, Promise> promised_;
  std::unordered_map<BlockKey, Promise> being_written_;
  // What each may say after a crash, empty: that it is not there. After an orderly end: the last.
  std::map<std::string, std::vector<std::string>> notes_;
  std::unordered_set<BlockKey> broken_;     // or maybe; until written anew
  std::unordered_set<BlockKey> asked_for_;  // ever to be written
};

}  // namespace terrace::sim
