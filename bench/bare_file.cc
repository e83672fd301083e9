#include "bench/bare_file.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace terrace::bench {

Result<BareFile> BareFile::create(const std::string& directory, std::size_t block_bytes,
                                  std::size_t blocks) {
  BareFile file;
  file.path_ = directory + "/bare-file";
  file.block_bytes_ = block_bytes;
  file.blocks_ = blocks;
  file.fd_ = ::open(file.path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0600);
  if (file.fd_ < 0) return error(errno_status(errno, "could not create " + file.path_));
  file.buffer_ = static_cast<std::byte*>(std::aligned_alloc(4096, block_bytes * depth));
  if (!file.buffer_) return error(StatusCode::resource_exhausted, "no memory for the buffers");
  for (std::size_t i = 0; i < block_bytes * depth; ++i)
    file.buffer_[i] = static_cast<std::byte>(i * 31 + i / 4096);
  for (std::size_t block = 0; block < blocks; ++block) {
    const ssize_t written = ::pwrite(file.fd_, file.buffer_ + block % depth * block_bytes,
                                     block_bytes, static_cast<off_t>(block * block_bytes));
    if (written != static_cast<ssize_t>(block_bytes))
      return error(errno_status(written < 0 ? errno : ENOSPC, "could not write " + file.path_));
  }
  if (::fdatasync(file.fd_) != 0) return error(errno_status(errno, "could not sync " + file.path_));
  return file;
}

BareFile::BareFile(BareFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::exchange(other.buffer_, nullptr)),
      block_bytes_(other.block_bytes_),
      blocks_(other.blocks_) {}

BareFile::~BareFile() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  std::free(buffer_);
}

Result<double> BareFile::read_all_ms() { return transfer_all_ms(false, 0); }

Result<double> BareFile::read_all_GBps() {
  const auto ms = read_all_ms();
  if (!ms) return ms;
  return static_cast<double>(block_bytes_ * blocks_) / *ms / 1e6;
}

Result<double> BareFile::write_all_ms(std::size_t sync_every) {
  return transfer_all_ms(true, sync_every);
}

Result<double> BareFile::transfer_all_ms(bool write, std::size_t sync_every) {
  io_uring ring;
  if (const int failure = io_uring_queue_init(depth, &ring, 0); failure < 0)
    return error(errno_status(-failure, "could not make a ring"));
  const auto begin = std::chrono::steady_clock::now();
  std::size_t submitted = 0, completed = 0, synced = 0;
  Status status;
  std::vector<std::size_t> idle_buffers;
  for (std::size_t i = 0; i < depth; ++i) idle_buffers.push_back(i);
  const auto may_start = [&] {
    return submitted < blocks_ && !idle_buffers.empty() &&
           (sync_every == 0 || submitted - synced < sync_every);
  };
  while (completed < blocks_ && status.ok()) {
    while (may_start()) {
      const std::size_t buffer = idle_buffers.back();
      idle_buffers.pop_back();
      io_uring_sqe* const entry = io_uring_get_sqe(&ring);
      std::byte* const memory = buffer_ + buffer * block_bytes_;
      const auto bytes = static_cast<unsigned>(block_bytes_);
      if (write)
        io_uring_prep_write(entry, fd_, memory, bytes, submitted * block_bytes_);
      else
        io_uring_prep_read(entry, fd_, memory, bytes, submitted * block_bytes_);
      io_uring_sqe_set_data64(entry, buffer);
      ++submitted;
    }
    if (const int failure = io_uring_submit_and_wait(&ring, 1); failure < 0) {
      status = errno_status(-failure, "could not wait for the ring");
      break;
    }
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring, &entry) == 0) {
      if (entry->res != static_cast<int>(block_bytes_) && status.ok())
        status = errno_status(entry->res < 0 ? -entry->res : EIO, "could not use " + path_);
      idle_buffers.push_back(io_uring_cqe_get_data64(entry));
      io_uring_cqe_seen(&ring, entry);
      ++completed;
    }
    const bool due = completed == blocks_ ||
                     (sync_every > 0 && completed == submitted && submitted - synced >= sync_every);
    if (write && due && status.ok()) {
      if (::fdatasync(fd_) != 0) status = errno_status(errno, "could not sync " + path_);
      synced = completed;
    }
  }
  const double elapsed =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  io_uring_queue_exit(&ring);
  if (!status.ok()) return error(status);
  return elapsed;
}

}  // namespace terrace::bench
