// An arena's bytes: an anonymous memory file, mapped here and shared with clients as a descriptor.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/background_population.h"
#include "core/shared_memory.h"
#include "core/status.h"
#include "core/unique_fd.h"
#include "storage/device/accelerator.h"

namespace terrace::storage {

class MemoryFile final : public DeviceMemory {
 public:
  // What those who get the descriptor may do with it.
  enum class Clients { read_only, read_write };

  // `name` shows in /proc. Its pages are taken ahead of use: the
  // first of them at once, the rest in the background. Nobody can add seals later. io_error or
  // no_space if the kernel refuses.
  static Result<std::unique_ptr<MemoryFile>> create(const std::string& name, std::size_t bytes,
                                                    Clients clients);

  std::size_t size() const override { return mapping_.size(); }
  std::byte* data() const override { return mapping_.data(); }
  bool host_accessible() const override { return true; }
  int exported_fd() const override { return fd_.get(); }

 private:
  MemoryFile(UniqueFd fd, SharedMapping mapping);

  UniqueFd fd_;
  SharedMapping mapping_;
  BackgroundPopulation population_;
};

}  // namespace terrace::storage
