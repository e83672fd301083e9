// Several directories, on disks of their own, as one disk tier: each is a DiskStore with its own
// index, lock and share of the capacity. A block lies in one of them; which one, only its own index
// and the table here know. A directory that fails loses nobody's blocks but its own, and those only
// while it fails.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "storage/disk/disk_options.h"
#include "storage/disk/disk_store.h"
#include "storage/disk/disk_tier.h"
#include "storage/disk/fingerprint_table.h"

namespace terrace::storage {

constexpr std::size_t max_data_directories = 64;
// How long a directory with I/O errors is left alone: at first, and at most.
constexpr std::int64_t first_directory_rest_ns = 100'000'000;
constexpr std::int64_t longest_directory_rest_ns = 10'000'000'000;
// How long until one that could not be opened is tried again: at first, and at most.
constexpr std::int64_t first_reopen_ns = 1'000'000'000;
constexpr std::int64_t longest_reopen_ns = 60'000'000'000;

class DiskSet final : public DiskTier {
 public:
  // Makes the outside world of one directory.
  using MakeWorld = std::function<DiskWorld(const std::string& directory)>;

  // `options` for all of them, but for its directory; its capacity is shared equally. Errors as of
  // DiskStore::open, but that a directory which the system does not let look (io_error) is left out
  // with a warning, unless that is so of all of them. It is tried again, at growing intervals, on a
  // thread of its own. Once it can be opened it takes blocks; those that it has already are found
  // by the next start, and take room there until then.
  static Result<std::unique_ptr<DiskSet>> open(const DiskOptions& options,
                                               const std::vector<std::string>& directories,
                                               std::shared_ptr<const Clock> clock = nullptr,
                                               const MakeWorld& make_world = nullptr);

  ~DiskSet() override;

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
  // Of all directories that opened, without what blocks take there that nobody knows.
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
    std::uint64_t unknown_bytes = 0;  // that its blocks took when it came late
  };
  struct Absent {
    std::string directory;
    std::uint32_t failures = 1;
    std::int64_t not_before_ns = 0;
  };
  // The first of absent_ is being opened.
  struct Opening {
    std::optional<Result<std::unique_ptr<DiskStore>>> outcome;  // once `done`
    std::atomic<bool> done = false;
    std::thread thread;
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

  DiskSet(const DiskOptions& options, std::shared_ptr<const Clock> clock, MakeWorld make_world)
      : options_(options), clock_(std::move(clock)), make_world_(std::move(make_world)) {}
  void adopt(std::size_t part);
  Result<std::unique_ptr<DiskStore>> open_store(const std::string& directory) const;
  // Begins to open a directory that is away, if it is time, and takes in what came of it.
  void look_for_absent();
  void take_in(std::string directory, std::unique_ptr<DiskStore> store);
  bool rests(const Part& part) const;
  void note_outcome(Part& part, const Status& status);
  // The directory to try next, none if all were.
  std::optional<std::size_t> choose(const Writing& writing) const;
  void try_write(Writing& writing);
  void handle(std::size_t part, DiskCompletion completion);
  void finish_write(Ticket ticket, DiskCompletion completion);
  void complete(DiskCompletion completion);

  const DiskOptions options_;  // of each directory, but for its name
  const std::shared_ptr<const Clock> clock_;
  const MakeWorld make_world_;
  std::deque<Absent> absent_;
  // What a directory that comes late must know.
  std::map<BlockKey, SpaceDescriptor> spaces_;
  std::map<std::string, std::string> notes_;
  static_assert(max_data_directories <= UINT8_MAX);
  FingerprintTable<1> part_of_;
  std::vector<RecoveredBlock> recovered_blocks_;
  std::unordered_map<Ticket, Writing> writing_;
  std::unordered_map<BlockKey, Ticket> writing_key_;
  std::unordered_map<Ticket, Reading> reading_;
  std::unordered_map<Ticket, Flushing> flushing_;
  std::vector<DiskCompletion> completed_;  // without any directory
  std::function<void()> notify_;
  std::vector<Part> parts_;  // goes early: its stores may complete until they are gone
  std::unique_ptr<Opening> opening_;
};

}  // namespace terrace::storage
