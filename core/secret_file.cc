#include "core/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/unique_fd.h"

namespace terrace {
namespace {

Result<std::string> read_whole(const std::string& path, std::size_t max_bytes, bool secret) {
  // Not waiting for the other end of a pipe.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return error(errno_status(errno, "could not read " + path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return error(errno_status(errno, "could not look at " + path));
  if (!S_ISREG(info.st_mode))
    return error(StatusCode::failed_precondition, path + " is not a regular file");
  if (secret && (info.st_mode & S_IRWXO) != 0)
    return error(StatusCode::failed_precondition,
                 path + " holds a secret, but others may use it: chmod o= " + path);
  std::string text(max_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error(errno_status(errno, "could not read " + path));
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  if (size > max_bytes)
    return error(StatusCode::invalid_argument,
                 path + " has more than " + std::to_string(max_bytes) + " bytes");
  text.resize(size);
  return text;
}

}  // namespace

Result<std::string> read_small_file(const std::string& path, std::size_t max_bytes) {
  return read_whole(path, max_bytes, false);
}

Result<std::string> read_secret_text(const std::string& path, std::size_t max_bytes) {
  return read_whole(path, max_bytes, true);
}

Result<std::string> read_secret_file(const std::string& path) {
  auto text = read_secret_text(path, max_secret_bytes);
  if (!text) return text;
  text->resize(std::min(text->size(), text->find_first_of("\r\n")));
  if (text->empty())
    return error(StatusCode::invalid_argument, "the first line of " + path + " is empty");
  return text;
}

}  // namespace terrace
