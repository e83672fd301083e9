// The disk tier on a local file system: data files written and read with direct I/O, an index in
// RocksDB, one thread that drives both.
#pragma once

#include <memory>

#include "storage/disk/disk_options.h"
#include "storage/disk/disk_tier.h"

namespace terrace::storage {

class DiskEngine;

class DiskStore final : public DiskTier {
 public:
  // Makes the directory if there is none, and finds again what is in it. already_exists if another
  // store is open there, failed_precondition for another format version, invalid_argument for
  // options that make no sense, io_error if the system does not let it look: in each case nothing
  // is changed.
  static Result<std::unique_ptr<DiskStore>> open(const DiskOptions& options, DiskWorld world = {});
  // Ends what is under way (requests that have not begun are dropped without a completion), makes
  // it durable and lets go of the directory.
  ~DiskStore() override;

  std::vector<RecoveredBlock> take_recovered_blocks() override;
  std::vector<SpaceDescriptor> take_recovered_spaces() override;
  std::vector<DiskNote> take_recovered_notes() override;
  void add_space(const SpaceDescriptor& space) override;
  void write(DiskWrite request) override;
  void read(DiskRead request) override;
  void erase(const BlockKey& key) override;
  void touch(std::span<const BlockKey> keys, std::uint64_t recency) override;
  void set_note(DiskNote note) override;
  void flush(Ticket ticket) override;
  void take_completions(std::vector<DiskCompletion>& out) override;
  void set_notify(std::function<void()> notify) override;
  DiskUsage usage() const override;

  // "io_uring" or "threads", and whether I/O is direct: for people.
  std::string_view ring_name() const;
  bool direct() const;

 private:
  explicit DiskStore(std::unique_ptr<DiskEngine> engine, std::vector<RecoveredBlock> blocks,
                     std::vector<SpaceDescriptor> spaces, std::vector<DiskNote> notes);

  std::unique_ptr<DiskEngine> engine_;
  std::vector<RecoveredBlock> recovered_blocks_;
  std::vector<SpaceDescriptor> recovered_spaces_;
  std::vector<DiskNote> recovered_notes_;
};

}  // namespace terrace::storage
