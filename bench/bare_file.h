// The floor of a disk tier: reading and writing as many bytes with nothing but io_uring and
// O_DIRECT.
#pragma once

#include <cstddef>
#include <string>

#include "core/status.h"

namespace terrace::bench {

// A file of `blocks` blocks of `block_bytes` (a multiple of 4096), written once, then read and
// overwritten again and again.
class BareFile {
 public:
  static constexpr unsigned depth = 16;

  // Writes the file. io_error if the directory cannot hold it.
  static Result<BareFile> create(const std::string& directory, std::size_t block_bytes,
                                 std::size_t blocks);
  ~BareFile();
  BareFile(BareFile&& other) noexcept;
  BareFile& operator=(BareFile&&) = delete;

  // Milliseconds to read every block once, `depth` in flight, in the order of the file.
  Result<double> read_all_ms();
  // The same as a rate.
  Result<double> read_all_GBps();
  // Milliseconds to write every block once and make it durable, `depth` in flight: after each
  // `sync_every` blocks nothing new is started until these are written and an fdatasync of the file
  // is done. 0: one fdatasync, at the end.
  Result<double> write_all_ms(std::size_t sync_every);

 private:
  BareFile() = default;
  Result<double> transfer_all_ms(bool write, std::size_t sync_every);

  std::string path_;
  int fd_ = -1;
  std::byte* buffer_ = nullptr;
  std::size_t block_bytes_ = 0, blocks_ = 0;
};

}  // namespace terrace::bench
