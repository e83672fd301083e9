// Which kernels run: the compute type, the instruction sets and what this processor has.
#pragma once

namespace terrace::inference {

// bf16: weights and activations are rounded to BF16 (nearest even) before each product, sums in
// F32. f32: weights expanded to F32, nothing is rounded before a product.
enum class Compute { bf16, f32 };

// `automatic` picks the best one that the processor has.
enum class Isa { automatic, portable, avx2, avx512, avx512_bf16 };

const char* to_string(Compute compute);
const char* to_string(Isa isa);  // "auto", "portable", "avx2", "avx512", "avx512_bf16"

// Whether processor and operating system can run these kernels. `automatic` is always true.
bool supported(Isa isa);
Isa best_isa();

}  // namespace terrace::inference
