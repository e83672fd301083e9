// A regular file, mapped read-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/status.h"

namespace terrace::gguf {

// Which file a mapping shows, as it was when it was opened. A name may belong to another one since.
struct FileIdentity {
  std::uint64_t bytes = 0, inode = 0, device = 0;
  std::int64_t modified_ns = 0;  // since 1970

  bool operator==(const FileIdentity&) const = default;
};

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
  const FileIdentity& identity() const { return identity_; }

 private:
  Mapping(std::span<const std::byte> bytes, const FileIdentity& identity)
      : bytes_(bytes), identity_(identity) {}

  std::span<const std::byte> bytes_;
  FileIdentity identity_;
};

}  // namespace terrace::gguf
