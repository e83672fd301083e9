// What the golden files say, and how near an answer is to it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

namespace terrace::inference {

// A file of the golden directory beside the checkout; nullopt where that is absent.
std::optional<nlohmann::json> golden_json(const std::string& name);
std::string golden_path(const std::string& name);

// The demo model: $TERRACE_DEMO_MODEL, else where the quickstart keeps it; nullopt if absent.
std::optional<std::string> demo_model_path();

// The root mean square of the differences, after subtracting their mean.
double rms_difference(std::span<const double> actual, std::span<const double> expected);
// The same over the standard deviation of `expected`.
double relative_difference(std::span<const double> actual, std::span<const double> expected);

}  // namespace terrace::inference
