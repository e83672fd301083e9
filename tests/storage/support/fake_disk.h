// A disk in memory whose requests are completed when a test says so, in the order that it says, and
// fail when it says. Like the manual accelerator it touches bytes at the completion, the latest
// moment allowed. What is durable lies in FakeDiskContents, which outlives the disk as files do.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "storage/disk/disk_tier.h"

namespace terrace::storage {

struct FakeRecord {
  BlockKey space, parent;
  std::vector<Token> tokens;
  std::vector<std::byte> payload;
  std::uint64_t checksum = 0;
  std::uint64_t recency = 0;
  std::uint64_t durable_recency = 0;  // what a crash leaves of it
  std::int64_t created_unix_ms = 0;
};

struct FakeDiskContents {
  std::uint64_t capacity_bytes = 1 << 20;
  std::map<BlockKey, FakeRecord> records;
  std::vector<SpaceDescriptor> spaces;
  std::map<std::string, std::string> notes;
  std::map<std::string, std::string> durable_notes;
  // Erased since the last commit: a crash may bring them back.
  std::vector<std::pair<BlockKey, FakeRecord>> erased;

  // Makes erases, recency and notes durable.
  void commit();
  // What is left after the process died: recency and notes as they were durable, and those of the
  // erased that `comes_back` says, as far as there is room.
  void crash(const std::function<bool()>& comes_back);

  static std::uint64_t disk_bytes(const FakeRecord& record) { return record.payload.size() + 4096; }
  std::uint64_t used_bytes() const;
};

class FakeDisk final : public DiskTier {
 public:
  enum class Kind { write, read, flush };
  struct Request {
    Kind kind = Kind::flush;
    DiskWrite write;
    DiskRead read;
    Ticket flush = 0;
    BlockKey key() const { return kind == Kind::write ? write.key : read.key; }
  };

  explicit FakeDisk(FakeDiskContents& contents) : contents_(contents) {}

  std::vector<RecoveredBlock> take_recovered_blocks() override;
  std::vector<SpaceDescriptor> take_recovered_spaces() override;
  void add_space(const SpaceDescriptor& space) override;
  void write(DiskWrite request) override;
  void read(DiskRead request) override;
  void erase(const BlockKey& key) override;
  void touch(std::span<const BlockKey> keys, std::uint64_t recency) override;
  std::vector<DiskNote> take_recovered_notes() override;
  void set_note(DiskNote note) override;
  void flush(Ticket ticket) override;
  void take_completions(std::vector<DiskCompletion>& out) override;
  void set_notify(std::function<void()> notify) override { notify_ = std::move(notify); }
  DiskUsage usage() const override;

  const std::deque<Request>& under_way() const { return requests_; }
  // Whether no request for the same key came before it, nor, for a flush, any other at all.
  bool may_complete(std::size_t which) const;
  std::size_t writes() const { return writes_; }
  std::size_t reads() const { return reads_; }
  std::size_t touches() const { return touches_; }
  std::size_t erases() const { return erases_; }

  // Completes one request: as it should, or with `failure` and without any effect.
  void complete(std::size_t which, const Status& failure = {});

 private:
  Status carry_out(Request& request, DiskCompletion& completion);

  FakeDiskContents& contents_;
  std::deque<Request> requests_;
  std::vector<DiskCompletion> completions_;
  std::function<void()> notify_;
  std::size_t writes_ = 0, reads_ = 0, touches_ = 0, erases_ = 0;
};

}  // namespace terrace::storage
