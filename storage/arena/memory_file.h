// An arena's bytes: an anonymous memory file, mapped here and shared with clients as a descriptor.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/shared_memory.h"
#include "core/status.h"
#include "core/unique_fd.h"
#include "storage/device/accelerator.h"

namespace terrace::storage {

class MemoryFile final : public DeviceMemory {
 public:
  // What those who get the descriptor may do with it.
  enum class Clients { read_only, read_write };

  // `name` shows in /proc. All pages are taken at once. Nobody can add seals later. io_error or
  // no_space if the kernel refuses.
  static Result<std::unique_ptr<MemoryFile>> create(const std::string& name, std::size_t bytes,
                                                    Clients clients);

  std::size_t size() const override { return mapping_.size(); }
  std::byte* data() const override { return mapping_.data(); }
  bool host_accessible() const override { return true; }
  int exported_fd() const override { return fd_.get(); }

 private:
  MemoryFile(UniqueFd fd, SharedMapping mapping)
      : fd_(std::move(fd)), mapping_(std::move(mapping)) {}

  UniqueFd fd_;
  SharedMapping mapping_;
};

}  // namespace terrace::storage
