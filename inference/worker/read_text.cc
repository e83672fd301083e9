#include "inference/worker/read_text.h"

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <istream>

namespace terrace::inference {

// By read(), which takes no exception for an answer.
Result<std::string> read_all(std::istream& in, std::string_view name) {
  std::string text;
  std::array<char, 1 << 16> buffer;
  errno = 0;
  while (in.read(buffer.data(), buffer.size()), in.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return error(errno_status(errno, "could not read " + std::string(name)));
  return text;
}

Result<std::string> read_file(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return error(errno_status(errno, "could not open " + path));
  return read_all(in, path);
}

}  // namespace terrace::inference
