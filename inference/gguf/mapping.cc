#include "inference/gguf/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "core/unique_fd.h"

namespace terrace::gguf {

Result<Mapping> Mapping::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return error(errno_status(errno, path));
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return error(errno_status(errno, path));
  if (!S_ISREG(about.st_mode)) {
    return error(StatusCode::io_error, path + ": is not a regular file");
  }
  const auto size = static_cast<std::size_t>(about.st_size);
  const FileIdentity identity{
      .bytes = size,
      .inode = about.st_ino,
      .device = about.st_dev,
      .modified_ns = about.st_mtim.tv_sec * std::int64_t{1'000'000'000} + about.st_mtim.tv_nsec};
  if (size == 0) return Mapping({}, identity);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (address == MAP_FAILED) return error(errno_status(errno, path));
  return Mapping({static_cast<const std::byte*>(address), size}, identity);
}

Mapping::Mapping(Mapping&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), identity_(other.identity_) {}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace terrace::gguf
