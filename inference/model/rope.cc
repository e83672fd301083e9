#include "inference/model/rope.h"

#include <cmath>
#include <string>

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

}  // namespace terrace::inference
