// Several directories, on disks of their own, as one disk tier: each is a DiskStore with its own
// index, lock and share of the capacity. A block lies in one of them; which one, only its own index
// and the table here know. A directory that fails loses nobody's blocks but its own, and those only
// while it fails.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <variant>
#include <vector>

#include "storage/disk/disk_options.h"
#include "storage/disk/disk_store.h"
#include "storage/disk/disk_tier.h"

namespace terrace::storage {

constexpr std::size_t max_data_directories = 64;
// How long a directory with I/O errors is left alone: at first, and at most.
constexpr std::int64_t first_directory_rest_ns = 100'000'000;
constexpr std::int64_t longest_directory_rest_ns = 10'000'000'000;

class DiskSet final : public DiskTier {
 public:
  // Makes the outside world of one directory.
  using MakeWorld = std::function<DiskWorld(const std::string& directory)>;

  // `options` for all of them, but for its directory; its capacity is shared equally. Errors as of
  // DiskStore::open, but that a directory which the system does not let look (io_error) is left out
  // with a warning until the next start, unless that is so of all of them.
  static Result<std::unique_ptr<DiskSet>> open(const DiskOptions& options,
                                               const std::vector<std::string>& directories,
                                               std::shared_ptr<const Clock> clock = nullptr,
                                               const MakeWorld& make_world = nullptr);

  std::vector<RecoveredBlock> take_recovered_blocks() override;
  std::vector<SpaceDescriptor> take_recovered_spaces() override;
  // Of the first directory that opened: all of them keep all notes.
  std::vector<DiskNote> take_recovered_notes() override;
  void add_space(const SpaceDescriptor& space) override;
  // Goes to the directory with the largest part free that is not resting; if that cannot take it,
  // to the next.
  void write(DiskWrite request) override;
  void read(DiskRead request) override;
  void erase(const BlockKey& key) override;
  void touch(std::span<const BlockKey> keys, std::uint64_t recency) override;
  void set_note(DiskNote note) override;
  void flush(Ticket ticket) override;
  void take_completions(std::vector<DiskCompletion>& out) override;
  void set_notify(std::function<void()> notify) override;
  // Of all directories that opened.
  DiskUsage usage() const override;

  std::size_t directories() const { return parts_.size(); }
  const std::string& directory(std::size_t part) const { return parts_[part].directory; }
  const DiskStore& store(std::size_t part) const { return *parts_[part].store; }

 private:
  struct Part {
    std::string directory;
    std::unique_ptr<DiskStore> store;
    std::uint64_t writing_bytes = 0;  // of writes under way
    std::uint32_t failures = 0;       // in a row
    std::int64_t rests_until_ns = 0;
  };
  // What waits for a write of its key.
  using Later = std::variant<DiskWrite, DiskRead, BlockKey>;
  struct Writing {
    DiskWrite request;
    std::size_t part = 0;
    std::vector<bool> tried;
    Status problem;  // of the directory tried first
    std::deque<Later> later;
  };
  struct Reading {
    BlockKey key;
    bool leave_corrupt = false;
  };
  struct Flushing {
    std::size_t left = 0;
    Status status;
  };

  explicit DiskSet(std::shared_ptr<const Clock> clock) : clock_(std::move(clock)) {}
  void adopt(std::size_t part);
  bool rests(const Part& part) const;
  void note_outcome(Part& part, const Status& status);
  // The directory to try next, none if all were.
  std::optional<std::size_t> choose(const Writing& writing) const;
  void try_write(Writing& writing);
  void handle(std::size_t part, DiskCompletion completion);
  void finish_write(Ticket ticket, DiskCompletion completion);
  void complete(DiskCompletion completion);

  const std::shared_ptr<const Clock> clock_;
  std::unordered_map<BlockKey, std::uint32_t> part_of_;
  std::vector<RecoveredBlock> recovered_blocks_;
  std::unordered_map<Ticket, Writing> writing_;
  std::unordered_map<BlockKey, Ticket> writing_key_;
  std::unordered_map<Ticket, Reading> reading_;
  std::unordered_map<Ticket, Flushing> flushing_;
  std::vector<DiskCompletion> completed_;  // without any directory
  std::function<void()> notify_;
  std::vector<Part> parts_;  // goes first: its stores may complete until they are gone
};

}  // namespace terrace::storage
