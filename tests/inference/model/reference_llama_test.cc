// Who judges the judge: the reference agrees with the golden logits, which another program made.
#include "tests/inference/model/reference_llama.h"

#include <gtest/gtest.h>

#include "tests/inference/model/golden.h"

namespace terrace::inference {
namespace {

TEST(ReferenceLlama, AgreesWithTheGoldenLogitsOfEachVariant) {
  const auto golden = golden_json("tiny/logits.json");
  if (!golden) GTEST_SKIP() << "no golden files beside the checkout";
  for (const char* name : {"f32.gguf", "untied_2layers.gguf", "wide_heads.gguf", "no_gqa.gguf",
                           "rope_llama3.gguf", "rope_linear.gguf", "q4_k_m.gguf"}) {
    SCOPED_TRACE(name);
    const auto file = gguf::File::open(golden_path(std::string("tiny/") + name));
    ASSERT_TRUE(file) << file.error().to_string();
    const auto ids = golden->at(name).at("ids").get<std::vector<Token>>();
    const auto expected = golden->at(name).at("last_logits").get<std::vector<double>>();
    // The file lists six digits.
    EXPECT_LT(relative_difference(ReferenceLlama(**file).logits(ids).back(), expected), 1e-6);
  }
}

}  // namespace
}  // namespace terrace::inference
