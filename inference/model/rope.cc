#include "inference/model/rope.h"

#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include "core/checksum.h"
#include "inference/cpu/elementwise.h"
#include "inference/model/llama_tensors.h"

namespace terrace::inference {

Result<std::vector<double>> rope_frequencies(const LlamaConfig& config,
                                             const std::optional<gguf::Tensor>& factors) {
  std::vector<double> frequencies(config.rope_dims / 2);
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair)
    frequencies[pair] = std::pow(static_cast<double>(config.rope_base),
                                 -2.0 * static_cast<double>(pair) / config.rope_dims) /
                        config.rope_linear_factor;
  if (!factors) return frequencies;
  const std::vector<float> values = read_vector(*factors);
  for (std::size_t pair = 0; pair < frequencies.size(); ++pair) {
    if (!(values[pair] > 0) || !std::isfinite(values[pair]))
      return error(StatusCode::invalid_argument,
                   "the tensor " + factors->name + " holds the factor " +
                       std::to_string(values[pair]) + ", expected a positive number");
    frequencies[pair] /= values[pair];
  }
  return frequencies;
}

std::string rope_digest(const std::vector<double>& frequencies) {
  constexpr std::size_t positions = 1024;
  RopeTable table(frequencies);
  table.ensure(positions);
  const std::span values(table.row(0), positions * 2 * table.rope_dims());
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x",
                static_cast<unsigned>(payload_checksum(std::as_bytes(values))));
  return digits;
}

}  // namespace terrace::inference
