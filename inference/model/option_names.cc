#include <array>
#include <string>

#include "inference/model/llama.h"

namespace terrace::inference {

namespace {

template <typename T, std::size_t N>
Result<T> parse(std::string_view text, std::string_view what, const std::array<T, N>& values) {
  std::string possible;
  for (const T value : values) {
    if (text == to_string(value)) return value;
    possible += (possible.empty() ? "" : ", ") + std::string(to_string(value));
  }
  return error(StatusCode::invalid_argument, "unknown " + std::string(what) + " \"" +
                                                 std::string(text) + "\", expected one of " +
                                                 possible);
}

}  // namespace

Result<Compute> parse_compute(std::string_view text) {
  return parse(text, "compute type", std::array{Compute::bf16, Compute::f32});
}

Result<KvDtype> parse_kv_dtype(std::string_view text) {
  return parse(text, "KV type", std::array{KvDtype::bf16, KvDtype::f32});
}

Result<Isa> parse_isa(std::string_view text) {
  return parse(text, "instruction set",
               std::array{Isa::automatic, Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16});
}

}  // namespace terrace::inference
