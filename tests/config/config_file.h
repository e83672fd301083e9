// A configuration file in a directory of its own, removed at the end.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace terrace::config {

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { std::ofstream(path(), std::ios::binary) << text; }

  void allow(std::filesystem::perms perms) const { std::filesystem::permissions(path(), perms); }
  std::filesystem::path path() const { return directory_.file("test.toml"); }
  std::filesystem::path directory() const { return directory_.path(); }

 private:
  test_support::TempDir directory_;
};

}  // namespace terrace::config
