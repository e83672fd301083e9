#include "tests/inference/model/golden.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

namespace terrace::inference {

namespace {
double standard_deviation(std::span<const double> values) {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}
}  // namespace

std::string golden_path(const std::string& name) {
  return std::string(TERRACE_SHARED_DIR) + "/reference/golden/" + name;
}

std::optional<nlohmann::json> golden_json(const std::string& name) {
  std::ifstream in(golden_path(name));
  if (!in) return std::nullopt;
  return nlohmann::json::parse(in);
}

std::optional<std::string> demo_model_path() {
  const char* named = std::getenv("TERRACE_DEMO_MODEL");
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  std::string path;
  if (named)
    path = named;
  else if (cache || home)
    path = (cache ? std::string(cache) : std::string(home) + "/.cache") +
           "/terrace/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path)) return std::nullopt;
  return path;
}

double rms_difference(std::span<const double> actual, std::span<const double> expected) {
  std::vector<double> differences(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) differences[i] = actual[i] - expected[i];
  return standard_deviation(differences);
}

double relative_difference(std::span<const double> actual, std::span<const double> expected) {
  return rms_difference(actual, expected) / standard_deviation(expected);
}

}  // namespace terrace::inference
