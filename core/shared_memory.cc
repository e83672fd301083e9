#include "core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

namespace terrace {

SharedMapping::~SharedMapping() {
  if (data_) ::munmap(data_, size_);
}

SharedMapping::SharedMapping(SharedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      access_(other.access_) {}

SharedMapping& SharedMapping::operator=(SharedMapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(access_, other.access_);
  return *this;
}

Result<SharedMapping> SharedMapping::map(int fd, std::size_t bytes, Access access) {
  struct stat info;
  if (::fstat(fd, &info) != 0)
    return error(errno_status(errno, "could not look at a shared memory file"));
  if (bytes == 0 || static_cast<std::uint64_t>(info.st_size) < bytes)
    return error(StatusCode::invalid_argument, "a shared memory file holds " +
                                                   std::to_string(info.st_size) +
                                                   " bytes; expected " + std::to_string(bytes));
  const int protection = access == Access::read_write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return error(errno_status(errno, "could not map shared memory"));
  ::madvise(data, bytes, MADV_DONTDUMP);
  SharedMapping mapping;
  mapping.data_ = static_cast<std::byte*>(data);
  mapping.size_ = bytes;
  mapping.access_ = access;
  return mapping;
}

void SharedMapping::populate(std::size_t offset, std::size_t bytes) const {
  if (offset >= size_ || bytes == 0) return;
  if (bytes > size_ - offset) bytes = size_ - offset;
#ifdef MADV_POPULATE_WRITE
  ::madvise(data_ + offset, bytes,
            access_ == Access::read_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
#endif
}

Result<UniqueFd> create_memory_file(const std::string& name, std::size_t bytes) {
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return error(errno_status(errno, "could not create a memory file"));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return error(
        errno_status(errno, "could not size a memory file of " + std::to_string(bytes) + " bytes"));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return error(errno_status(errno, "could not seal the size of a memory file"));
  return fd;
}

Status seal_against_writing(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    return errno_status(errno, "could not seal a memory file against writing");
  return {};
}

Status seal_against_sealing(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) != 0)
    return errno_status(errno, "could not seal a memory file against seals");
  return {};
}

}  // namespace terrace
