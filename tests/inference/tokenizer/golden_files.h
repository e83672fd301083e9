// Where the golden files and the models they were made with are; tests skip where they are absent.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace terrace::tokenizer {

inline std::string golden_path(const std::string& name) {
  return std::string(TERRACE_SHARED_DIR) + "/reference/golden/" + name;
}

// $TERRACE_DEMO_MODEL, else where the quickstart keeps it.
inline std::string demo_model_path() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string model = variable("TERRACE_DEMO_MODEL"); !model.empty()) return model;
  std::string cache = variable("XDG_CACHE_HOME");
  if (cache.empty()) cache = variable("HOME") + "/.cache";
  return cache + "/terrace/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

}  // namespace terrace::tokenizer

// In the body of a test.
#define SKIP_WITHOUT_FILE(path)                    \
  if (!std::filesystem::exists(path)) {            \
    GTEST_SKIP() << "there is no file " << (path); \
  }                                                \
  static_assert(true)
