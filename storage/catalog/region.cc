#include "storage/catalog/region.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>

#include "storage/catalog/short_pointer.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

namespace terrace::storage {

namespace {

// Committed at once, on its own boundary: one huge page.
constexpr std::size_t commit_bytes = std::size_t{2} << 20;
constexpr std::size_t least_reserved_bytes = std::size_t{64} << 20;

}  // namespace

Region::Region() {
  for (std::size_t size = reserved_bytes; size >= least_reserved_bytes; size /= 2) {
    void* const got =
        ::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) continue;
    base_ = static_cast<std::byte*>(got);
    size_ = size;
    return;
  }
}

Region::~Region() {
  if (!base_) return;
  ASAN_UNPOISON_MEMORY_REGION(base_, committed_);
  ::munmap(base_, size_);
}

bool Region::commit_more() {
  const auto end = reinterpret_cast<std::uintptr_t>(base_) + committed_;
  const std::size_t bytes =
      std::min(commit_bytes - end % commit_bytes, size_ - committed_);  // up to a boundary
  if (bytes == 0) return false;
  if (::mprotect(base_ + committed_, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  // A look-up goes all over the memory: fewer, larger pages save most of its misses in the
  // processor's table of pages. Not for the first of them: most caches of tests are tiny.
  if (committed_ > 0 && bytes == commit_bytes) ::madvise(base_ + committed_, bytes, MADV_HUGEPAGE);
  committed_ += bytes;
  return true;
}

std::byte* Region::take() {
  while (committed_ - taken_ < piece_bytes)
    if (!commit_more()) return nullptr;
  std::byte* const piece = base_ + taken_;
  taken_ += piece_bytes;
  return piece;
}

Pool::Pool(Region& region, std::size_t item_bytes)
    : region_(region),
      item_bytes_((std::max(item_bytes, sizeof(Free)) + short_pointer_alignment - 1) /
                  short_pointer_alignment * short_pointer_alignment) {
  assert(item_bytes_ <= Region::piece_bytes);
}

void* Pool::allocate() {
  void* item = free_;
  if (item) {
    ASAN_UNPOISON_MEMORY_REGION(item, item_bytes_);
    free_ = free_->next;
  } else {
    if (static_cast<std::size_t>(fresh_end_ - fresh_) < item_bytes_) {
      std::byte* const piece = region_.take();
      if (!piece) return nullptr;
      ++pieces_;
      // What is left of a piece is of use where the next one follows it.
      if (piece != fresh_end_) fresh_ = piece;
      fresh_end_ = piece + Region::piece_bytes;
    }
    item = fresh_;
    fresh_ += item_bytes_;
  }
  ++used_;
  return item;
}

void Pool::free(void* item) {
  assert(used_ > 0);
  --used_;
  free_ = new (item) Free{free_};
  ASAN_POISON_MEMORY_REGION(item, item_bytes_);
}

}  // namespace terrace::storage
