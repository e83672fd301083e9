// The memory through which blocks of a client with KV memory of its own are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "core/shared_memory.h"
#include "core/status.h"
#include "core/unique_fd.h"

namespace terrace::daemon {

// A client that has its descriptor may write to it at any time: nothing in it is believed. Its size
// is sealed. Whoever copies from or to it keeps a pointer to it meanwhile.
class StagingRegion {
 public:
  // Rounded down to whole pages; taken from the machine as it is touched. invalid_argument below
  // one page, io_error or no_space if the kernel refuses.
  static Result<std::shared_ptr<StagingRegion>> create(std::uint64_t bytes);

  int fd() const { return fd_.get(); }
  std::uint64_t size() const { return mapping_.size(); }
  // Nothing if it does not lie in the region.
  std::optional<std::span<std::byte>> find(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  StagingRegion(UniqueFd fd, SharedMapping mapping)
      : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  SharedMapping mapping_;
};

}  // namespace terrace::daemon
