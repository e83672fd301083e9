// Between disk and device memory that the CPU cannot access: host memory through which blocks pass,
// and the copies to and from it. The cache does not know of it: it sees an accelerator and a disk
// like any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "storage/device/accelerator.h"
#include "storage/disk/aligned_buffer.h"
#include "storage/disk/disk_tier.h"

namespace terrace::storage {

// Passes everything on to an accelerator, and keeps the copies of a StagedDisk apart from those of
// the cache. Deciding thread only.
class StagingAccelerator final : public Accelerator {
 public:
  using OnCopied = std::function<void(const CopyCompletion&)>;

  // `accelerator` must outlive it.
  explicit StagingAccelerator(Accelerator& accelerator) : accelerator_(accelerator) {}

  // For the StagedDisk: `on_copied` gets the completions of start_staged_copy(), during pump().
  void set_on_copied(OnCopied on_copied) { on_copied_ = std::move(on_copied); }
  void start_staged_copy(std::uint64_t ticket, std::byte* to, std::span<const std::byte> from);
  void pump();

  std::string name() const override { return accelerator_.name(); }
  bool host_accessible() const override { return accelerator_.host_accessible(); }
  std::string device_uuid() const override { return accelerator_.device_uuid(); }
  Result<std::uint64_t> available_bytes() const override { return accelerator_.available_bytes(); }
  Result<std::unique_ptr<DeviceMemory>> allocate(std::size_t bytes) override {
    return accelerator_.allocate(bytes);
  }
  Status register_host_memory(std::span<std::byte> memory) override {
    return accelerator_.register_host_memory(memory);
  }
  void unregister_host_memory(std::span<std::byte> memory) override {
    accelerator_.unregister_host_memory(memory);
  }
  void copy_async(std::uint64_t ticket, std::byte* to, std::span<const std::byte> from) override {
    accelerator_.copy_async(ticket, to, from);
  }
  void checksum_async(std::uint64_t ticket, std::span<const std::byte> from) override {
    accelerator_.checksum_async(ticket, from);
  }
  void take_completions(std::vector<CopyCompletion>& out) override;
  void set_notify(std::function<void()> notify) override {
    accelerator_.set_notify(std::move(notify));
  }
  void synchronize() override { accelerator_.synchronize(); }

 private:
  // The cache numbers its tickets from 1 on and never gets here.
  static constexpr std::uint64_t staged_bit = 1ull << 63;

  Accelerator& accelerator_;
  OnCopied on_copied_;
  std::vector<CopyCompletion> taken_, of_the_cache_;
};

// A disk whose reads and writes may be of device memory. A write's payload is fetched into a
// staging buffer and compared with its checksum before the disk gets it; a read's payload is copied
// to the device when the disk has verified it, and compared again there. Requests wait for a buffer
// when all are in use. Deciding thread only.
class StagedDisk final : public DiskTier {
 public:
  // Buffers in all, unless a single block is larger: the cache has at most as many reads and writes
  // under way as keep a disk busy.
  static constexpr std::size_t default_max_staging_bytes = std::size_t{64} << 20;

  StagedDisk(std::unique_ptr<DiskTier> disk, StagingAccelerator& accelerator,
             std::size_t max_staging_bytes = default_max_staging_bytes);
  // Lets everything under way come to its end.
  ~StagedDisk() override;

  // Which addresses are device memory; all others are passed on to the disk as they are.
  void set_device_memory(std::span<const std::byte> memory) { device_ = memory; }
  std::size_t staging_bytes() const { return staging_bytes_; }

  std::vector<RecoveredBlock> take_recovered_blocks() override {
    return disk_->take_recovered_blocks();
  }
  std::vector<SpaceDescriptor> take_recovered_spaces() override {
    return disk_->take_recovered_spaces();
  }
  std::vector<DiskNote> take_recovered_notes() override { return disk_->take_recovered_notes(); }
  void add_space(const SpaceDescriptor& space) override { disk_->add_space(space); }
  void write(DiskWrite request) override;
  void read(DiskRead request) override;
  void erase(const BlockKey& key) override;
  void touch(std::span<const BlockKey> keys, std::uint64_t recency) override;
  void set_note(DiskNote note) override { disk_->set_note(std::move(note)); }
  void flush(Ticket ticket) override;
  void take_completions(std::vector<DiskCompletion>& out) override;
  void set_notify(std::function<void()> notify) override;
  DiskUsage usage() const override { return disk_->usage(); }

 private:
  struct Request {
    bool is_write = false;
    bool with_disk = false;  // a write: the disk knows of it
    bool erased = false;     // a write: the key was erased before the disk knew of it
    DiskWrite write;
    DiskRead read;
    std::span<std::byte> device;  // where a read goes to
    AlignedBuffer* buffer = nullptr;
    std::uint64_t checksum = 0;  // of what a read delivered
    std::size_t bytes() const { return is_write ? write.payload.size() : device.size(); }
  };

  bool is_device(const std::byte* at) const {
    return at >= device_.data() && at < device_.data() + device_.size();
  }
  void start_waiting();
  void start(Request request);
  void copied(const CopyCompletion& completion);
  // A write whose payload has been fetched, well or not: the disk's turn.
  void leave_staging(Request& request, bool good);
  void end(std::unordered_map<Ticket, Request>::iterator request, DiskCompletion completion);
  AlignedBuffer* take_buffer(std::size_t bytes);
  void drop_spare_buffers();

  std::unique_ptr<DiskTier> disk_;
  StagingAccelerator& accelerator_;
  std::size_t max_staging_bytes_;
  std::span<const std::byte> device_;
  std::function<void()> notify_;

  std::deque<Request> waiting_;                    // for a buffer
  std::unordered_map<Ticket, Request> under_way_;  // with a buffer
  std::size_t writes_in_staging_ = 0;
  std::vector<Ticket> flushes_;  // that wait for those writes
  std::vector<DiskCompletion> completions_, from_disk_;

  std::vector<std::unique_ptr<AlignedBuffer>> buffers_;
  std::unordered_set<AlignedBuffer*> registered_;
  std::vector<AlignedBuffer*> spare_;
  std::size_t staging_bytes_ = 0;
};

}  // namespace terrace::storage
