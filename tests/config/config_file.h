// A configuration file in a directory of its own, removed at the end.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace terrace::config {

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) {
    std::string pattern = (std::filesystem::temp_directory_path() / "config-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    directory_ = pattern;
    std::ofstream(path(), std::ios::binary) << text;
  }
  ~ConfigFile() { std::filesystem::remove_all(directory_); }
  ConfigFile(const ConfigFile&) = delete;
  ConfigFile& operator=(const ConfigFile&) = delete;

  std::filesystem::path path() const { return directory_ / "test.toml"; }
  std::filesystem::path directory() const { return directory_; }

 private:
  std::filesystem::path directory_;
};

}  // namespace terrace::config
