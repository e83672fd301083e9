// A regular file, mapped read-only.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/status.h"

namespace terrace::gguf {

class Mapping {
 public:
  // io_error that names the path if it cannot be opened or is no regular file (a FIFO is refused,
  // not waited for). An empty file gives an empty mapping. Whoever truncates the file while it is
  // mapped kills the readers (SIGBUS): model files are replaced by rename, never rewritten.
  static Result<Mapping> open(const std::string& path);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping();

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit Mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace terrace::gguf
