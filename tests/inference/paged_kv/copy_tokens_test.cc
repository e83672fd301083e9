#include "inference/model/copy_tokens.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace terrace::inference {
namespace {

class CopyTokens : public ::testing::TestWithParam<KvDtype> {};

// The number of a value's place in its tile, as core/kv_layout.h draws it.
std::size_t place(const KvGeometry& geometry, bool value, std::size_t token, std::size_t dim) {
  const std::size_t dims = geometry.padded_head_dim();
  if (geometry.dtype == KvDtype::f32)
    return value ? token * dims + dim : dim * chunk_tokens + token;
  return value ? (token / 2 * dims + dim) * 2 + token % 2
               : (dim / 2 * chunk_tokens + token) * 2 + dim % 2;
}

TEST_P(CopyTokens, CopiesTheFirstTokensAndNothingElse) {
  const KvGeometry geometry{
      .layers = 2, .kv_heads = 3, .head_dim = 24, .block_tokens = 64, .dtype = GetParam()};
  std::vector<std::byte> from(geometry.block_bytes());
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(1 + i % 251);
  const std::size_t bytes = kv_dtype_bytes(geometry.dtype);
  for (const std::uint32_t tokens : {0u, 1u, 2u, 7u, 31u, 32u, 33u, 50u, 63u, 64u}) {
    std::vector<std::byte> to(from.size()), expected(from.size());
    copy_leading_tokens(geometry, tokens, from, to);
    for (std::uint32_t layer = 0; layer < geometry.layers; ++layer)
      for (std::uint32_t kv = 0; kv < 2; ++kv)
        for (std::uint32_t head = 0; head < geometry.kv_heads; ++head)
          for (std::uint32_t token = 0; token < tokens; ++token)
            for (std::size_t dim = 0; dim < geometry.padded_head_dim(); ++dim) {
              const std::size_t at = geometry.tile_offset(layer, kv, head, token / chunk_tokens) +
                                     place(geometry, kv == 1, token % chunk_tokens, dim) * bytes;
              std::memcpy(&expected[at], &from[at], bytes);
            }
    EXPECT_TRUE(to == expected) << tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, CopyTokens, ::testing::Values(KvDtype::bf16, KvDtype::f32),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param));
                         });

}  // namespace
}  // namespace terrace::inference
