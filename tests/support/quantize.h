// Floats to the types of tensors that tests write: nearest value, no search for better scales.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "inference/gguf/gguf_file.h"

namespace terrace::test_support {

// Nearest, ties to even; overflow gives infinity.
std::uint16_t float_to_half(float value);
std::uint16_t float_to_bf16(float value);

// F32, F16, BF16, Q8_0, Q4_0 and Q4_1: the bytes of the blocks; values.size() is a multiple of the
// type's block. Ends the process for other types.
std::string quantize(gguf::TensorType type, std::span<const float> values);

}  // namespace terrace::test_support
