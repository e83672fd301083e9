#include "tests/storage/disk/faulty_world.h"

#include <utility>

namespace terrace::storage {

namespace {

class FaultyFiles final : public Files {
 public:
  explicit FaultyFiles(std::shared_ptr<FaultPlan> plan)
      : plan_(std::move(plan)), files_(make_system_files()) {}

  Status create_directories(const std::string& path) override {
    if (const int failed = plan_->next()) return fault(failed);
    return files_->create_directories(path);
  }
  Status sync_directory(const std::string& path) override {
    if (const int failed = plan_->next()) return fault(failed);
    return files_->sync_directory(path);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    if (const int failed = plan_->next()) return error(fault(failed));
    return files_->list(path);
  }
  Status remove(const std::string& path) override {
    if (const int failed = plan_->next()) return fault(failed);
    return files_->remove(path);
  }
  // Nothing hangs on it, and it comes from another thread: it does not count.
  std::uint64_t allocated_bytes(const std::string& path) override {
    return files_->allocated_bytes(path);
  }
  Result<std::string> read_file(const std::string& path) override {
    if (const int failed = plan_->next()) return error(fault(failed));
    return files_->read_file(path);
  }
  Status write_file(const std::string& path, std::span<const std::byte> contents) override {
    if (const int failed = plan_->next()) return fault(failed);
    return files_->write_file(path, contents);
  }
  Result<UniqueFd> lock_file(const std::string& path, const std::string& owner) override {
    if (const int failed = plan_->next()) return error(fault(failed));
    return files_->lock_file(path, owner);
  }
  Result<DataFile> open_data_file(const std::string& path, bool create) override {
    if (const int failed = plan_->next()) return error(fault(failed));
    return files_->open_data_file(path, create);
  }
  Status preallocate(int fd, std::uint64_t bytes) override {
    if (const int failed = plan_->next()) return fault(failed);
    return files_->preallocate(fd, bytes);
  }
  Result<std::uint64_t> size(int fd) override {
    if (const int failed = plan_->next()) return error(fault(failed));
    return files_->size(fd);
  }
  Status sync(int fd) override {
    if (const int failed = plan_->next()) return fault(failed);
    return files_->sync(fd);
  }
  Status punch_hole(int fd, std::uint64_t offset, std::uint64_t bytes) override {
    if (const int failed = plan_->next()) return fault(failed);
    return files_->punch_hole(fd, offset, bytes);
  }
  Result<std::optional<std::uint64_t>> next_data(int fd, std::uint64_t offset) override {
    if (const int failed = plan_->next()) return error(fault(failed));
    return files_->next_data(fd, offset);
  }
  Result<std::size_t> read(int fd, std::uint64_t offset, std::span<std::byte> into) override {
    if (const int failed = plan_->next()) return error(fault(failed));
    return files_->read(fd, offset, into);
  }

 private:
  static Status fault(int error_number) { return errno_status(error_number, "a planned fault"); }

  const std::shared_ptr<FaultPlan> plan_;
  const std::unique_ptr<Files> files_;
};

class FaultyRing final : public Ring {
 public:
  FaultyRing(std::shared_ptr<FaultPlan> plan, std::unique_ptr<Ring> ring)
      : plan_(std::move(plan)), ring_(std::move(ring)) {}

  std::string_view name() const override { return "faulty"; }
  void submit(const RingOperation& operation) override {
    if (const int failed = plan_->next()) {
      failed_.push_back({operation.tag, -failed});
      ring_->wake();
    } else {
      ring_->submit(operation);
    }
  }
  void wait(std::vector<RingCompletion>& out, std::optional<std::int64_t> timeout_ns) override {
    ring_->wait(out, timeout_ns);
    out.insert(out.end(), failed_.begin(), failed_.end());
    failed_.clear();
  }
  void wake() override { ring_->wake(); }

 private:
  const std::shared_ptr<FaultPlan> plan_;
  const std::unique_ptr<Ring> ring_;
  std::vector<RingCompletion> failed_;
};

}  // namespace

DiskWorld faulty_world(std::shared_ptr<FaultPlan> plan, bool in_files, bool in_ring) {
  DiskWorld world;
  if (in_files) world.files = std::make_unique<FaultyFiles>(plan);
  if (in_ring) {
    world.make_ring = [plan](RingKind kind, unsigned depth) -> Result<std::unique_ptr<Ring>> {
      auto ring = make_ring(kind, depth);
      if (!ring) return ring;
      return std::make_unique<FaultyRing>(plan, std::move(*ring));
    };
  }
  return world;
}

}  // namespace terrace::storage
