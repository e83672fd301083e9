#include "bench/bare_read.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace terrace::bench {

namespace {
constexpr unsigned depth = 16;
}

Result<BareRead> BareRead::create(const std::string& directory, std::size_t block_bytes,
                                  std::size_t blocks) {
  BareRead read;
  read.path_ = directory + "/bare-read";
  read.block_bytes_ = block_bytes;
  read.blocks_ = blocks;
  read.fd_ = ::open(read.path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_DIRECT, 0600);
  if (read.fd_ < 0) return error(errno_status(errno, "could not create " + read.path_));
  read.buffer_ = static_cast<std::byte*>(std::aligned_alloc(4096, block_bytes * depth));
  if (!read.buffer_) return error(StatusCode::resource_exhausted, "no memory for the read buffers");
  for (std::size_t i = 0; i < block_bytes * depth; ++i)
    read.buffer_[i] = static_cast<std::byte>(i * 31 + i / 4096);
  for (std::size_t block = 0; block < blocks; ++block) {
    const ssize_t written = ::pwrite(read.fd_, read.buffer_ + block % depth * block_bytes,
                                     block_bytes, static_cast<off_t>(block * block_bytes));
    if (written != static_cast<ssize_t>(block_bytes))
      return error(errno_status(written < 0 ? errno : ENOSPC, "could not write " + read.path_));
  }
  if (::fdatasync(read.fd_) != 0) return error(errno_status(errno, "could not sync " + read.path_));
  return read;
}

BareRead::BareRead(BareRead&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      buffer_(std::exchange(other.buffer_, nullptr)),
      block_bytes_(other.block_bytes_),
      blocks_(other.blocks_) {}

BareRead::~BareRead() {
  if (fd_ >= 0) {
    ::close(fd_);
    ::unlink(path_.c_str());
  }
  std::free(buffer_);
}

Result<double> BareRead::read_all_ms() {
  io_uring ring;
  if (const int failure = io_uring_queue_init(depth, &ring, 0); failure < 0)
    return error(errno_status(-failure, "could not make a ring"));
  const auto begin = std::chrono::steady_clock::now();
  std::size_t submitted = 0, completed = 0;
  Status status;
  const auto submit = [&](std::size_t buffer) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring);
    io_uring_prep_read(entry, fd_, buffer_ + buffer * block_bytes_,
                       static_cast<unsigned>(block_bytes_), submitted * block_bytes_);
    io_uring_sqe_set_data64(entry, buffer);
    ++submitted;
  };
  while (submitted < depth && submitted < blocks_) submit(submitted);
  while (completed < submitted && status.ok()) {
    io_uring_submit(&ring);
    io_uring_cqe* entry = nullptr;
    if (const int failure = io_uring_wait_cqe(&ring, &entry); failure < 0) {
      status = errno_status(-failure, "could not wait for a read");
      break;
    }
    const std::size_t buffer = io_uring_cqe_get_data64(entry);
    if (entry->res != static_cast<int>(block_bytes_))
      status = errno_status(entry->res < 0 ? -entry->res : EIO, "could not read " + path_);
    io_uring_cqe_seen(&ring, entry);
    ++completed;
    if (submitted < blocks_) submit(buffer);
  }
  const double elapsed =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  io_uring_queue_exit(&ring);
  if (!status.ok()) return error(status);
  return elapsed;
}

}  // namespace terrace::bench
