#include "inference/model/rope.h"

#include <cmath>
#include <string>

#include "inference/model/llama_tensors.h"

namespace terrace::inference {

Result<RopeFrequencies> RopeFrequencies::make(const LlamaConfig& config,
                                              const std::optional<gguf::Tensor>& factors) {
  RopeFrequencies result;
  for (std::uint32_t pair = 0; pair < config.rope_dims / 2; ++pair)
    result.inverse_.push_back(
        std::pow(static_cast<double>(config.rope_base), -2.0 * pair / config.rope_dims) /
        config.rope_linear_factor);
  if (factors) {
    const std::vector<float> values = read_vector(*factors);
    for (std::size_t pair = 0; pair < result.pairs(); ++pair) {
      if (!(values[pair] > 0) || !std::isfinite(values[pair]))
        return error(StatusCode::invalid_argument,
                     "the tensor " + factors->name + " holds the factor " +
                         std::to_string(values[pair]) + ", expected a positive number");
      result.inverse_[pair] /= values[pair];
    }
  }
  return result;
}

void RopeFrequencies::angles(std::uint32_t position, float* cosines, float* sines) const {
  for (std::size_t pair = 0; pair < pairs(); ++pair) {
    const double angle = position * inverse_[pair];
    cosines[pair] = static_cast<float>(std::cos(angle));
    sines[pair] = static_cast<float>(std::sin(angle));
  }
}

}  // namespace terrace::inference
