// The ring of the kernel. liburing stays in this file.
#include <liburing.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <ctime>

#include "core/unique_fd.h"
#include "storage/disk/ring.h"

namespace terrace::storage {

namespace {

constexpr std::uint64_t wake_tag = ~std::uint64_t{0};
// How long to wait before trying again when the kernel is short of memory for the ring.
constexpr long retry_ns = 1'000'000;

class IoUringRing final : public Ring {
 public:
  ~IoUringRing() override {
    if (ready_) io_uring_queue_exit(&ring_);
  }

  Status open(unsigned depth) {
    wake_fd_.reset(::eventfd(0, EFD_CLOEXEC));
    if (!wake_fd_) return errno_status(errno, "could not create an eventfd");
    // One more entry for the read that wake() completes.
    if (const int code = io_uring_queue_init(depth + 1, &ring_, 0); code < 0)
      return Status(StatusCode::unavailable,
                    errno_status(-code, "io_uring is not available").message());
    ready_ = true;
    arm_wake();
    return {};
  }

  std::string_view name() const override { return "io_uring"; }

  void submit(const RingOperation& operation) override {
    io_uring_sqe* const entry = next_entry();
    const auto count = static_cast<unsigned>(operation.iovecs.size());
    switch (operation.kind) {
      case RingOperation::Kind::read:
        io_uring_prep_readv(entry, operation.fd, operation.iovecs.data(), count, operation.offset);
        break;
      case RingOperation::Kind::write:
        io_uring_prep_writev(entry, operation.fd, operation.iovecs.data(), count, operation.offset);
        break;
      case RingOperation::Kind::sync:
        io_uring_prep_fsync(entry, operation.fd, IORING_FSYNC_DATASYNC);
        break;
    }
    io_uring_sqe_set_data64(entry, operation.tag);
  }

  void wait(std::vector<RingCompletion>& out, std::optional<std::int64_t> timeout_ns) override {
    const std::size_t before = out.size();
    bool woken = take(out);
    if (woken || out.size() > before) {
      // Something is there already; what was prepared must still start.
      io_uring_submit(&ring_);
      return;
    }
    if (timeout_ns) {
      __kernel_timespec timeout{*timeout_ns / 1'000'000'000, *timeout_ns % 1'000'000'000};
      io_uring_cqe* ignored = nullptr;
      const int code = io_uring_submit_and_wait_timeout(&ring_, &ignored, 1, &timeout, nullptr);
      if (code < 0) pause_if_short(-code);
    } else if (const int code = io_uring_submit_and_wait(&ring_, 1); code < 0) {
      pause_if_short(-code);
    }
    take(out);
  }

  void wake() override {
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then the ring is woken already.
    [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
  }

 private:
  io_uring_sqe* next_entry() {
    for (;;) {
      if (io_uring_sqe* entry = io_uring_get_sqe(&ring_)) return entry;
      if (const int code = io_uring_submit(&ring_); code < 0) pause_if_short(-code);
    }
  }

  static void pause_if_short(int error_number) {
    if (error_number != EAGAIN && error_number != EBUSY && error_number != ENOMEM) return;
    const timespec pause{0, retry_ns};
    ::nanosleep(&pause, nullptr);
  }

  void arm_wake() {
    io_uring_sqe* const entry = next_entry();
    io_uring_prep_read(entry, wake_fd_.get(), &wake_count_, sizeof wake_count_, 0);
    io_uring_sqe_set_data64(entry, wake_tag);
  }

  // True if a wake() was among them.
  bool take(std::vector<RingCompletion>& out) {
    bool woken = false;
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) == 0) {
      const std::uint64_t tag = io_uring_cqe_get_data64(entry);
      const int result = entry->res;
      io_uring_cqe_seen(&ring_, entry);
      if (tag == wake_tag) {
        woken = true;
        arm_wake();
      } else {
        out.push_back({tag, result});
      }
    }
    return woken;
  }

  io_uring ring_{};
  bool ready_ = false;
  UniqueFd wake_fd_;
  std::uint64_t wake_count_ = 0;
};

}  // namespace

Result<std::unique_ptr<Ring>> make_io_uring_ring(unsigned depth) {
  auto ring = std::make_unique<IoUringRing>();
  if (Status opened = ring->open(depth); !opened.ok()) return error(opened);
  return ring;
}

}  // namespace terrace::storage
