#include "core/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/unique_fd.h"

namespace terrace {
namespace {

Result<UniqueFd> open_secret(const std::string& path) {
  // Not waiting for the other end of a pipe.
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return error(errno_status(errno, "could not read " + path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return error(errno_status(errno, "could not look at " + path));
  if (!S_ISREG(info.st_mode))
    return error(StatusCode::failed_precondition, path + " is not a regular file");
  if ((info.st_mode & S_IRWXO) != 0)
    return error(StatusCode::failed_precondition,
                 path + " holds a secret, but others may use it: chmod o= " + path);
  return fd;
}

}  // namespace

Status check_secret_file(const std::string& path) {
  const auto fd = open_secret(path);
  return fd ? Status() : fd.error();
}

Result<std::string> read_secret_file(const std::string& path) {
  const auto fd = open_secret(path);
  if (!fd) return error(fd.error());
  std::string text(max_secret_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd->get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error(errno_status(errno, "could not read " + path));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > max_secret_bytes)
    return error(StatusCode::invalid_argument, path + " is too long to be a secret");
  text.resize(size);
  text.resize(std::min(text.size(), text.find_first_of("\r\n")));
  if (text.empty())
    return error(StatusCode::invalid_argument, "the first line of " + path + " is empty");
  return text;
}

}  // namespace terrace
