// RocksDB over simulated files. Its threads are its own, but what they do does not depend on how
// fast they are: compactions, and whatever is begun while the log fails, wait for settle().
#pragma once

#include <rocksdb/env.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/simulated_files.h"

namespace terrace::sim {

class SimulatedIndexEnv final : public rocksdb::EnvWrapper {
 public:
  SimulatedIndexEnv();
  const char* Name() const override { return "SimulatedIndexEnv"; }

  // What it works on from now on; nothing is open.
  void use(SimulatedFiles* files) { files_ = files; }

  // Lets background work begin, and waits until none is left.
  void settle();

  // The operation on the log after `operations` more of them fails, and all that follow.
  void fail_log(std::int64_t operations, bool full) {
    log_left_ = operations;
    log_full_ = full;
  }
  void heal_log() { log_left_.reset(); }

  using EnvWrapper::NewSequentialFile;
  rocksdb::Status NewSequentialFile(const std::string& path,
                                    std::unique_ptr<rocksdb::SequentialFile>* file,
                                    const rocksdb::EnvOptions&) override;
  rocksdb::Status NewRandomAccessFile(const std::string& path,
                                      std::unique_ptr<rocksdb::RandomAccessFile>* file,
                                      const rocksdb::EnvOptions&) override;
  rocksdb::Status NewWritableFile(const std::string& path,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions&) override;
  rocksdb::Status ReopenWritableFile(const std::string& path,
                                     std::unique_ptr<rocksdb::WritableFile>* file,
                                     const rocksdb::EnvOptions&) override;
  rocksdb::Status NewDirectory(const std::string& path,
                               std::unique_ptr<rocksdb::Directory>* directory) override;
  rocksdb::Status FileExists(const std::string& path) override;
  rocksdb::Status GetChildren(const std::string& path, std::vector<std::string>* names) override;
  rocksdb::Status GetChildrenFileAttributes(const std::string& path,
                                            std::vector<FileAttributes>* found) override {
    return Env::GetChildrenFileAttributes(path, found);
  }
  rocksdb::Status DeleteFile(const std::string& path) override;
  rocksdb::Status Truncate(const std::string& path, size_t bytes) override;
  rocksdb::Status CreateDir(const std::string& path) override;
  rocksdb::Status CreateDirIfMissing(const std::string& path) override { return CreateDir(path); }
  rocksdb::Status DeleteDir(const std::string&) override { return rocksdb::Status::OK(); }
  rocksdb::Status GetFileSize(const std::string& path, uint64_t* bytes) override;
  rocksdb::Status GetFileModificationTime(const std::string&, uint64_t* time) override {
    *time = 0;
    return rocksdb::Status::OK();
  }
  rocksdb::Status RenameFile(const std::string& from, const std::string& to) override;
  rocksdb::Status LinkFile(const std::string&, const std::string&) override {
    return rocksdb::Status::NotSupported();
  }
  rocksdb::Status LockFile(const std::string&, rocksdb::FileLock** lock) override {
    *lock = new rocksdb::FileLock;
    return rocksdb::Status::OK();
  }
  rocksdb::Status UnlockFile(rocksdb::FileLock* lock) override {
    delete lock;
    return rocksdb::Status::OK();
  }
  rocksdb::Status IsDirectory(const std::string& path, bool* is_directory) override;
  rocksdb::Status GetAbsolutePath(const std::string& path, std::string* absolute) override {
    *absolute = path;
    return rocksdb::Status::OK();
  }
  rocksdb::Status GetFreeSpace(const std::string&, uint64_t*) override {
    return rocksdb::Status::NotSupported();
  }

  void Schedule(void (*function)(void*), void* argument, Priority priority, void* tag,
                void (*unschedule)(void*)) override;
  int UnSchedule(void* tag, Priority priority) override;

 private:
  class Readable;
  class Writable;
  class SyncedDirectory;
  struct Jobs {
    std::mutex mutex;
    std::condition_variable none_left;
    std::size_t count = 0;
    void done();
  };
  struct Job {
    std::shared_ptr<Jobs> jobs;  // is told after RocksDB was, which may end everything
    void (*function)(void*);
    void* argument;
    void (*unschedule)(void*);
  };
  struct HeldJob {
    Job* job;
    Priority priority;
    void* tag;
  };
  static void run(void* job);
  static void drop(void* job);
  rocksdb::Status log_fault();

  SimulatedFiles* files_ = nullptr;
  // Only while nothing but the caller is at work.
  std::optional<std::int64_t> log_left_;
  bool log_full_ = false;
  std::vector<HeldJob> held_;  // under the mutex of jobs_
  const std::shared_ptr<Jobs> jobs_ = std::make_shared<Jobs>();
};

}  // namespace terrace::sim
