// The floor of a disk tier: reading as many bytes with nothing but io_uring and O_DIRECT.
#pragma once

#include <cstddef>
#include <string>

#include "core/status.h"

namespace terrace::bench {

// A file of `blocks` blocks of `block_bytes` (a multiple of 4096), written once, then read again
// and again.
class BareRead {
 public:
  // Writes the file. io_error if the directory cannot hold it.
  static Result<BareRead> create(const std::string& directory, std::size_t block_bytes,
                                 std::size_t blocks);
  ~BareRead();
  BareRead(BareRead&& other) noexcept;
  BareRead& operator=(BareRead&&) = delete;

  // Milliseconds to read every block once, 16 in flight, in the order of the file.
  Result<double> read_all_ms();

 private:
  BareRead() = default;
  std::string path_;
  int fd_ = -1;
  std::byte* buffer_ = nullptr;
  std::size_t block_bytes_ = 0, blocks_ = 0;
};

}  // namespace terrace::bench
