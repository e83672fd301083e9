// A directory that is gone with everything in it at the end of its scope.
#pragma once

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>

namespace terrace::test_support {

class TempDir {
 public:
  // Below $TMPDIR or /tmp, or below `parent` (a file system that has O_DIRECT, say). Ends the
  // process if it cannot be made: no test can go on without it.
  TempDir() : TempDir(std::filesystem::temp_directory_path()) {}
  explicit TempDir(const std::filesystem::path& parent) {
    path_ = (parent / "terrace-test-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) {
      std::perror(path_.c_str());
      std::abort();
    }
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  // The path of an entry of the directory, which need not exist.
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace terrace::test_support
