#include "tests/sim/simulated_index_env.h"

#include <algorithm>
#include <utility>

namespace terrace::sim {

using rocksdb::Slice;
using rocksdb::Status;

namespace {

Status no_such_file(const std::string& path) {
  // As RocksDB's own says it.
  return Status::PathNotFound(path, "No such file or directory");
}

}  // namespace

class SimulatedIndexEnv::Readable final : public rocksdb::SequentialFile,
                                          public rocksdb::RandomAccessFile {
 public:
  Readable(SimulatedFiles& files, SimulatedFiles::File file)
      : files_(files), file_(std::move(file)) {}

  Status Read(std::uint64_t offset, size_t bytes, Slice* result, char* scratch) const override {
    const std::lock_guard lock(files_.mutex());
    const auto all = file_->bytes();
    const std::size_t first = std::min<std::size_t>(offset, all.size());
    const auto from = all.subspan(first, std::min(bytes, all.size() - first));
    std::ranges::copy(from, reinterpret_cast<std::byte*>(scratch));
    *result = Slice(scratch, from.size());
    return Status::OK();
  }
  Status Read(size_t bytes, Slice* result, char* scratch) override {
    const Status read = Read(at_, bytes, result, scratch);
    at_ += result->size();
    return read;
  }
  Status Skip(uint64_t bytes) override {
    at_ += bytes;
    return Status::OK();
  }
  Status Prefetch(uint64_t, size_t) override { return Status::OK(); }
  Status InvalidateCache(size_t, size_t) override { return Status::OK(); }
  bool use_direct_io() const override { return false; }
  size_t GetRequiredBufferAlignment() const override { return 1; }

 private:
  SimulatedFiles& files_;
  const SimulatedFiles::File file_;
  std::uint64_t at_ = 0;
};

class SimulatedIndexEnv::Writable final : public rocksdb::WritableFile {
 public:
  Writable(SimulatedIndexEnv& env, SimulatedFiles::File file, bool log)
      : env_(env), file_(std::move(file)), log_(log) {}

  using WritableFile::Append;
  Status Append(const Slice& data) override {
    const std::lock_guard lock(env_.files_->mutex());
    const auto bytes = std::as_bytes(std::span(data.data(), data.size()));
    if (log_) {
      if (Status failed = env_.log_fault(); !failed.ok()) {
        // Part of it was written.
        file_->write(file_->size(), bytes.first(bytes.size() / 2));
        return failed;
      }
    }
    file_->write(file_->size(), bytes);
    return Status::OK();
  }
  Status Truncate(uint64_t bytes) override {
    const std::lock_guard lock(env_.files_->mutex());
    if (bytes < file_->size()) file_->truncate(bytes);
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }
  Status Flush() override { return Status::OK(); }
  Status Sync() override {
    const std::lock_guard lock(env_.files_->mutex());
    if (log_) {
      if (Status failed = env_.log_fault(); !failed.ok()) {
        file_->sync_failed(file_->last_write());
        return failed;
      }
    }
    file_->sync(file_->last_write());
    return Status::OK();
  }
  uint64_t GetFileSize() override {
    const std::lock_guard lock(env_.files_->mutex());
    return file_->size();
  }

 private:
  SimulatedIndexEnv& env_;
  const SimulatedFiles::File file_;
  const bool log_;
};

class SimulatedIndexEnv::SyncedDirectory final : public rocksdb::Directory {
 public:
  SyncedDirectory(SimulatedFiles& files, std::string path)
      : files_(files), path_(std::move(path)) {}
  Status Fsync() override {
    files_.sync_directory(path_);
    return Status::OK();
  }
  Status Close() override { return Status::OK(); }

 private:
  SimulatedFiles& files_;
  const std::string path_;
};

SimulatedIndexEnv::SimulatedIndexEnv() : EnvWrapper(rocksdb::Env::Default()) {
  // So that flushes, for which a caller may wait, are told from compactions.
  target()->SetBackgroundThreads(1, HIGH);
}

void SimulatedIndexEnv::settle() {
  std::unique_lock lock(jobs_->mutex);
  while (jobs_->count > 0) {
    for (const HeldJob& one : std::exchange(held_, {}))
      target()->Schedule(&run, one.job, one.priority, one.tag, &drop);
    jobs_->none_left.wait(lock, [this] { return jobs_->count == held_.size(); });
  }
}

Status SimulatedIndexEnv::log_fault() {
  if (!log_left_) return Status::OK();
  if (*log_left_ > 0) {
    --*log_left_;
    return Status::OK();
  }
  return log_full_ ? Status::NoSpace("told to") : Status::IOError("told to");
}

Status SimulatedIndexEnv::NewSequentialFile(const std::string& path,
                                            std::unique_ptr<rocksdb::SequentialFile>* file,
                                            const rocksdb::EnvOptions&) {
  auto found = files_->find(path);
  if (!found) return no_such_file(path);
  *file = std::make_unique<Readable>(*files_, std::move(found));
  return Status::OK();
}

Status SimulatedIndexEnv::NewRandomAccessFile(const std::string& path,
                                              std::unique_ptr<rocksdb::RandomAccessFile>* file,
                                              const rocksdb::EnvOptions&) {
  auto found = files_->find(path);
  if (!found) return no_such_file(path);
  *file = std::make_unique<Readable>(*files_, std::move(found));
  return Status::OK();
}

Status SimulatedIndexEnv::NewWritableFile(const std::string& path,
                                          std::unique_ptr<rocksdb::WritableFile>* file,
                                          const rocksdb::EnvOptions&) {
  *file = std::make_unique<Writable>(*this, files_->create(path), path.ends_with(".log"));
  return Status::OK();
}

Status SimulatedIndexEnv::ReopenWritableFile(const std::string& path,
                                             std::unique_ptr<rocksdb::WritableFile>* file,
                                             const rocksdb::EnvOptions&) {
  auto found = files_->find(path);
  if (!found) found = files_->create(path);
  *file = std::make_unique<Writable>(*this, std::move(found), path.ends_with(".log"));
  return Status::OK();
}

Status SimulatedIndexEnv::NewDirectory(const std::string& path,
                                       std::unique_ptr<rocksdb::Directory>* directory) {
  *directory = std::make_unique<SyncedDirectory>(*files_, path);
  return Status::OK();
}

Status SimulatedIndexEnv::FileExists(const std::string& path) {
  return files_->find(path) || files_->is_directory(path) ? Status::OK() : Status::NotFound(path);
}

Status SimulatedIndexEnv::GetChildren(const std::string& path, std::vector<std::string>* names) {
  *names = files_->list(path);
  return Status::OK();
}

Status SimulatedIndexEnv::DeleteFile(const std::string& path) {
  return files_->remove(path) ? Status::OK() : no_such_file(path);
}

Status SimulatedIndexEnv::Truncate(const std::string& path, size_t bytes) {
  const auto found = files_->find(path);
  if (!found) return no_such_file(path);
  const std::lock_guard lock(files_->mutex());
  found->truncate(bytes);
  return Status::OK();
}

Status SimulatedIndexEnv::CreateDir(const std::string& path) {
  files_->create_directories(path);
  return Status::OK();
}

Status SimulatedIndexEnv::GetFileSize(const std::string& path, uint64_t* bytes) {
  const auto found = files_->find(path);
  if (!found) return no_such_file(path);
  const std::lock_guard lock(files_->mutex());
  *bytes = found->size();
  return Status::OK();
}

Status SimulatedIndexEnv::RenameFile(const std::string& from, const std::string& to) {
  return files_->rename(from, to) ? Status::OK() : no_such_file(from);
}

Status SimulatedIndexEnv::IsDirectory(const std::string& path, bool* is_directory) {
  *is_directory = files_->is_directory(path);
  return Status::OK();
}

void SimulatedIndexEnv::Schedule(void (*function)(void*), void* argument, Priority priority,
                                 void* tag, void (*unschedule)(void*)) {
  const std::lock_guard lock(jobs_->mutex);
  ++jobs_->count;
  Job* const job = new Job{jobs_, function, argument, unschedule};
  if (priority == HIGH && !log_left_)
    target()->Schedule(&run, job, priority, tag, &drop);
  else
    held_.push_back({job, priority, tag});
}

int SimulatedIndexEnv::UnSchedule(void* tag, Priority priority) {
  std::vector<Job*> dropped;
  {
    const std::lock_guard lock(jobs_->mutex);
    std::erase_if(held_, [&](const HeldJob& one) {
      const bool its = one.tag == tag && one.priority == priority;
      if (its) dropped.push_back(one.job);
      return its;
    });
  }
  for (Job* job : dropped) drop(job);
  return static_cast<int>(dropped.size()) + target()->UnSchedule(tag, priority);
}

void SimulatedIndexEnv::run(void* job) {
  const std::unique_ptr<Job> own(static_cast<Job*>(job));
  own->function(own->argument);
  own->jobs->done();
}

void SimulatedIndexEnv::drop(void* job) {
  const std::unique_ptr<Job> own(static_cast<Job*>(job));
  if (own->unschedule) own->unschedule(own->argument);
  own->jobs->done();
}

void SimulatedIndexEnv::Jobs::done() {
  const std::lock_guard lock(mutex);
  --count;
  none_left.notify_all();
}

}  // namespace terrace::sim
