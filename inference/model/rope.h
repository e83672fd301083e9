// Rotary position embedding: how fast each pair of dimensions turns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"
#include "inference/model/llama_config.h"

namespace terrace::inference {

// Radians a position of each of rope_dims / 2 pairs:
//   rope_base^(-2i / rope_dims) / rope_linear_factor / factors[i]
// (Su et al., "RoFormer"; the factors are Llama 3.1's scaling by wavelength, 1 where absent). In
// double: at position 100,000 a float has lost the last digits of the fast pairs.
// invalid_argument if a factor of the tensor rope_freqs.weight is no positive number.
Result<std::vector<double>> rope_frequencies(const LlamaConfig& config,
                                             const std::optional<gguf::Tensor>& factors);

// Eight hexadecimal digits over the cosines and sines of the first positions. C libraries may
// differ in their last bit: what they compute must not be taken for the same.
std::string rope_digest(const std::vector<double>& frequencies);

}  // namespace terrace::inference
