#include "client/cli/dump_block.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "core/unique_fd.h"

namespace terrace::cli {
namespace {

// KV tells the prompt that it is of: nobody else may read it.
constexpr mode_t dump_mode = 0600;

Status write_all(int fd, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return errno_status(errno, "could not write " + path);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0 ? Status() : errno_status(errno, "could not write " + path);
}

}  // namespace

Status write_whole_file(const std::string& path, std::span<const std::byte> bytes) {
  std::string beside = path + ".XXXXXX";
  const UniqueFd fd(::mkostemp(beside.data(), O_CLOEXEC));
  if (!fd) return errno_status(errno, "could not create " + path);
  ::fchmod(fd.get(), dump_mode);
  Status status = write_all(fd.get(), bytes, path);
  if (status.ok() && ::rename(beside.c_str(), path.c_str()) != 0)
    status = errno_status(errno, "could not create " + path);
  if (!status.ok()) ::unlink(beside.c_str());
  return status;
}

}  // namespace terrace::cli
