#include "tests/inference/cpu/emulated_avx512.h"

// The table gets another name beside the one of the library.
#define avx512_kernels emulated_avx512_kernels
#include "inference/cpu/kernels/avx512.cc"
