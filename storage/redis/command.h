// A request on its way, and the commands that carry it to servers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/checksum.h"
#include "core/record.h"
#include "storage/redis/counters.h"
#include "storage/redis/remote_tier.h"

namespace terrace::storage::redis {

// A request that has not been completed. Once `done`, its memory is the caller's again: nothing is
// read from it or written to it any more, though a command may still be under way.
struct Task {
  Ticket ticket = 0;
  std::int64_t begun_ns = 0, deadline_ns = 0;
  bool done = false;

  virtual ~Task() = default;
  // Of a lookup: how many leading keys are known to be there.
  virtual std::uint32_t leading() const { return 0; }
};

struct LookupTask final : Task {
  enum class Answer : std::uint8_t { unknown, present, absent, failed };
  BlockKey space;
  std::vector<BlockKey> keys;
  std::vector<Answer> answers;  // one a key
  std::size_t unknown = 0;      // how many are
  Status failure;               // why the first that failed did, and where that is counted
  std::atomic<std::uint64_t> Counters::*failure_counter = nullptr;

  std::uint32_t leading() const override {
    return static_cast<std::uint32_t>(
        std::ranges::find_if(answers, [](Answer answer) { return answer != Answer::present; }) -
        answers.begin());
  }
};

struct ReadTask final : Task {
  RemoteRead request;
  std::int64_t created_unix_ms = 0;  // once verified
  GrowingChecksum checksum;          // of the destination
};

struct WriteTask final : Task {
  RemoteWrite request;
  GrowingChecksum checksum;  // of the payload, as far as it was handed to the socket
};

struct EraseTask final : Task {
  BlockKey space;
  std::size_t servers = 0;  // whose names are not all listed and gone
  // Slots moved meanwhile: names may have been missed at both ends.
  bool moved = false;
  unsigned passes = 0;
};

struct Command {
  enum class Kind : std::uint8_t {
    greet,   // a connection's first
    exists,  // of some keys of a lookup
    get,
    set,
    unlink,  // nobody waits for it, but for an erasure
    scan,    // some names of a space
    slots,   // the map of a cluster
    probe,   // whether the server is well again
  };
  Kind kind = Kind::probe;

  // What is sent: text, then payload, then suffix.
  std::string text;
  std::span<const std::byte> payload;
  std::string suffix;

  unsigned preamble = 0;          // replies before the first that matters: to ASKING
  std::size_t replies = 1;        // then so many
  std::size_t answered = 0;       // of these
  std::uint64_t value_bytes = 0;  // of the value that it carries, one way or the other
  unsigned losses = 0;            // connections that were lost while it was under way
  unsigned redirections = 0;
  bool asking = false;  // ASKING goes before it

  std::shared_ptr<LookupTask> lookup;
  std::vector<std::uint32_t> indexes;  // exists: of the lookup's keys
  std::shared_ptr<ReadTask> read;
  std::shared_ptr<WriteTask> write;
  BlockKey space;                    // unlink
  std::vector<BlockKey> unlink;      // its keys
  std::shared_ptr<EraseTask> erase;  // scan, and what it found to unlink
  // Of the names to scan, now or behind what is unlinked; empty: begin anew.
  std::string cursor;
  bool by_del = false;  // unlink: in the words of a server that does not know UNLINK

  const Task* task() const {
    if (lookup) return lookup.get();
    if (read) return read.get();
    if (erase) return erase.get();
    return write.get();
  }
  Task* task() { return const_cast<Task*>(std::as_const(*this).task()); }
  bool given_up() const { return task() != nullptr && task()->done; }
  bool carries_value() const { return value_bytes > 0; }
  std::size_t bytes() const { return text.size() + payload.size() + suffix.size(); }
};

}  // namespace terrace::storage::redis
