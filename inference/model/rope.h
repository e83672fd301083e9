// Rotary position embedding: the angles of each position.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"
#include "inference/model/llama_config.h"

namespace terrace::inference {

// The angle of pair i at a position is
//   position * rope_base^(-2i / rope_dims) / rope_linear_factor / factors[i]
// (Su et al., "RoFormer"; the factors are Llama 3.1's scaling by wavelength). Angles are formed in
// double: at position 100,000 a float has lost the last digits of the fast pairs.
class RopeFrequencies {
 public:
  // invalid_argument if a factor of the tensor rope_freqs.weight is no positive number.
  static Result<RopeFrequencies> make(const LlamaConfig& config,
                                      const std::optional<gguf::Tensor>& factors);

  std::size_t pairs() const { return inverse_.size(); }

  // Writes cos and sin of all pairs at `position`: pairs() floats each.
  void angles(std::uint32_t position, float* cosines, float* sines) const;

 private:
  std::vector<double> inverse_;  // radians a position
};

}  // namespace terrace::inference
