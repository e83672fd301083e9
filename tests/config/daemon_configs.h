// Configurations of tests, out of files and flags, and what is said of those that are refused.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "config/daemon_config.h"
#include "tests/config/config_file.h"

namespace terrace::config {

inline Result<DaemonConfig> load(const ConfigFile& file) {
  return load_daemon_config(file.path(), {});
}

// What is said of a file with this text, without the directory that it lies in.
inline std::string message_for(const std::string& text) {
  const ConfigFile file(text);
  const auto config = load(file);
  if (config) return "no error";
  EXPECT_EQ(config.error().code(), StatusCode::invalid_argument);
  std::string message = config.error().message();
  const std::string prefix = file.directory().string() + "/";
  for (std::size_t at; (at = message.find(prefix)) != std::string::npos;)
    message.erase(at, prefix.size());
  return message;
}

inline Result<DaemonConfig> load_with(std::initializer_list<const char*> settings) {
  std::vector<Override> overrides;
  for (const char* setting : settings) {
    auto option = Override::set(setting);
    if (!option) return error(option.error());
    overrides.push_back(std::move(*option));
  }
  return load_daemon_config(std::nullopt, overrides);
}

inline std::string message_with(std::initializer_list<const char*> settings) {
  const auto config = load_with(settings);
  return config ? "no error" : config.error().message();
}

}  // namespace terrace::config
