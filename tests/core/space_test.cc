#include "core/space.h"

#include <gtest/gtest.h>

#include <vector>

namespace terrace {
namespace {

SpaceDescriptor example() {
  SpaceDescriptor space;
  space.numerics_id = "fma.1";
  space.kv_dtype = "bf16";
  space.layout_id = "cpu-tile32";
  space.block_bytes = 4096;
  return space;
}

TEST(Space, EveryFieldButTheLabelIsPartOfItsIdentity) {
  std::vector<SpaceDescriptor> spaces(12, example());
  spaces[1].model_digest[0] = 1;
  spaces[2].numerics_id = "fma.2";
  spaces[3].kv_dtype = "f32";
  spaces[4].layout_id = "cuda";
  spaces[5].block_tokens = 64;
  spaces[6].block_bytes = 8192;
  spaces[7].tensor_parallel_size = 2;
  spaces[8].tensor_parallel_size = 2;
  spaces[8].tensor_parallel_rank = 1;
  spaces[9].adapter = "x";
  spaces[10].adapter_revision = "x";
  spaces[11].tenant = "x";
  for (std::size_t i = 0; i < spaces.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      EXPECT_NE(spaces[i].digest(), spaces[j].digest()) << i << " " << j;
  SpaceDescriptor labelled = example();
  labelled.label = "a name";
  EXPECT_EQ(labelled.digest(), example().digest());
}

TEST(Space, AbsurdValuesAreRefused) {
  EXPECT_TRUE(example().validate().ok());
  std::vector<SpaceDescriptor> bad(6, example());
  bad[0].block_tokens = 24;
  bad[1].block_tokens = 1024;
  bad[2].block_bytes = 0;
  bad[3].block_bytes = 65ull << 20;
  bad[4].tensor_parallel_rank = 1;
  bad[5].tenant = std::string(257, 'x');
  for (const auto& space : bad) EXPECT_EQ(space.validate().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace terrace
