#include "storage/disk/ring.h"

#include <spdlog/spdlog.h>

namespace terrace::storage {

Result<std::unique_ptr<Ring>> make_ring(RingKind kind, unsigned depth) {
  if (kind == RingKind::threads) return make_thread_ring(depth);
  auto ring = make_io_uring_ring(depth);
  if (ring || kind == RingKind::io_uring) return ring;
  spdlog::info("disk: {}; using threads instead", ring.error().message());
  return make_thread_ring(depth);
}

}  // namespace terrace::storage
