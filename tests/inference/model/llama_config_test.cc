#include "inference/model/llama_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "inference/model/llama_tensors.h"
#include "inference/model/rope.h"
#include "tests/inference/model/model_file.h"
#include "tests/support/temp_dir.h"

namespace terrace::inference {
namespace {

using testing::HasSubstr;

class LlamaConfigTest : public testing::Test {
 protected:
  // The error of reading the configuration of a model that was changed, or ok.
  Status config_error(const std::function<void(ModelFile&)>& change) {
    ModelFile model;
    change(model);
    const auto file = model.open(directory_.file("model.gguf"));
    const auto config = read_llama_config(*file);
    return config ? Status() : config.error();
  }
  Status tensor_error(const std::function<void(ModelFile&)>& change) {
    ModelFile model;
    change(model);
    const auto file = model.open(directory_.file("model.gguf"));
    const auto config = read_llama_config(*file);
    if (!config) return config.error();
    const auto tensors = find_llama_tensors(*file, *config);
    if (!tensors) return tensors.error();
    const auto rope = rope_frequencies(*config, tensors->rope_factors);
    return rope ? Status() : rope.error();
  }

  void expect_invalid(const Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(part));
    EXPECT_EQ(status.message().find('\n'), std::string::npos);
  }
  void expect_unimplemented(const Status& status, const std::string& part) {
    EXPECT_EQ(status.code(), StatusCode::unimplemented) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(part));
  }

  test_support::TempDir directory_;
};

TEST_F(LlamaConfigTest, ReadsWhatTheFileSaysAndFillsInDefaults) {
  const auto config = read_llama_config(*ModelFile().open(directory_.file("model.gguf")));
  ASSERT_TRUE(config) << config.error().to_string();
  EXPECT_EQ(config->layers, 2u);
  EXPECT_EQ(config->embedding, 64u);
  EXPECT_EQ(config->feed_forward, 96u);
  EXPECT_EQ(config->heads, 4u);
  EXPECT_EQ(config->kv_heads, 2u);
  EXPECT_EQ(config->head_dim, 16u);
  EXPECT_EQ(config->rope_dims, 16u);
  EXPECT_EQ(config->context_length, 512u);
  EXPECT_EQ(config->vocabulary, 77u);
  EXPECT_FLOAT_EQ(config->rope_base, 10000);
  EXPECT_FLOAT_EQ(config->rope_linear_factor, 1);
}

TEST_F(LlamaConfigTest, ListsOneValueALayerAreFineWhereAllAreEqual) {
  const auto with_list = [](std::vector<std::uint32_t> values) {
    return [values](ModelFile& model) {
      model.integers.erase("llama.attention.head_count_kv");
      model.integer_lists["llama.attention.head_count_kv"] = values;
    };
  };
  EXPECT_TRUE(config_error(with_list({2, 2})).ok());
  expect_unimplemented(config_error(with_list({2, 4})), "head_count_kv differs between layers");
  expect_invalid(config_error(with_list({2, 2, 2})), "3 values for 2 layers");
}

TEST_F(LlamaConfigTest, NamesTheKeyThatIsMissing) {
  for (const char* key : {"llama.block_count", "llama.context_length", "llama.embedding_length",
                          "llama.feed_forward_length", "llama.attention.head_count"})
    expect_invalid(config_error([&](ModelFile& model) { model.integers.erase(key); }), key);
  expect_invalid(config_error([](ModelFile& model) { model.numbers.clear(); }),
                 "llama.attention.layer_norm_rms_epsilon is missing");
  expect_invalid(config_error([](ModelFile& model) { model.texts.clear(); }),
                 "general.architecture is missing");
}

TEST_F(LlamaConfigTest, RefusesAnotherArchitecture) {
  expect_invalid(
      config_error([](ModelFile& model) { model.texts["general.architecture"] = "qwen2"; }),
      "qwen2");
}

TEST_F(LlamaConfigTest, RefusesAbsurdValues) {
  const auto with = [&](const char* key, std::uint32_t value) {
    return config_error([&](ModelFile& model) { model.integers[key] = value; });
  };
  for (const char* key :
       {"llama.block_count", "llama.context_length", "llama.embedding_length",
        "llama.feed_forward_length", "llama.attention.head_count", "llama.attention.head_count_kv"})
    for (const std::uint32_t value : {0u, 0xffffffffu}) expect_invalid(with(key, value), key);
  expect_invalid(with("llama.attention.head_count", 3), "llama.attention");
  expect_invalid(with("llama.attention.head_count_kv", 3), "no multiple");
  expect_invalid(with("llama.rope.dimension_count", 7), "an even number");
  expect_invalid(with("llama.rope.dimension_count", 18), "at most 16");
  expect_unimplemented(with("llama.attention.value_length", 8), "value_length (8) differ");
  expect_invalid(with("llama.attention.key_length", 100000), "key_length is 100000");

  const auto with_number = [&](const char* key, float value) {
    return config_error([&](ModelFile& model) { model.numbers[key] = value; });
  };
  for (const float value : {0.0f, -1.0f, 2.0f, std::nanf("")})
    expect_invalid(with_number("llama.attention.layer_norm_rms_epsilon", value), "epsilon is");
  expect_invalid(with_number("llama.rope.freq_base", -1), "freq_base is");
  expect_invalid(with_number("llama.rope.freq_base", HUGE_VALF), "freq_base is");
  expect_invalid(
      config_error([](ModelFile& model) { model.texts["llama.rope.freq_base"] = "fast"; }),
      "freq_base is no number");
}

TEST_F(LlamaConfigTest, BlockCountMustBeWhatTheTensorsSay) {
  for (const std::uint32_t count : {1u, 3u, 1000u})
    expect_invalid(
        config_error([&](ModelFile& model) { model.integers["llama.block_count"] = count; }),
        "has the tensors of 2 layers");
}

TEST_F(LlamaConfigTest, RefusesVariantsWhoseArithmeticIsNotKnown) {
  for (const char* key : {"expert_count", "attention.sliding_window"})
    expect_unimplemented(
        config_error([&](ModelFile& model) { model.integers[std::string("llama.") + key] = 8; }),
        key);
  // Zero says that there is none.
  EXPECT_TRUE(
      config_error([](ModelFile& model) { model.integers["llama.expert_count"] = 0; }).ok());
}

TEST_F(LlamaConfigTest, KnowsTheScalingsOfTheRotation) {
  const auto factor = [&](const std::string& type, float value) {
    ModelFile model;
    if (!type.empty()) model.texts["llama.rope.scaling.type"] = type;
    model.numbers["llama.rope.scaling.factor"] = value;
    const auto config = read_llama_config(*model.open(directory_.file("model.gguf")));
    return config ? config->rope_linear_factor : -1;
  };
  EXPECT_EQ(factor("linear", 4), 4);
  EXPECT_EQ(factor("", 4), 4);
  EXPECT_EQ(factor("", 0), 1);
  EXPECT_EQ(factor("none", 4), 1);
  expect_unimplemented(
      config_error([](ModelFile& model) { model.texts["llama.rope.scaling.type"] = "yarn"; }),
      "\"yarn\"");
  const auto llama3 = [](ModelFile& model) { model.texts["llama.rope.scaling.type"] = "llama3"; };
  expect_unimplemented(config_error(llama3), "\"llama3\"");
  EXPECT_TRUE(tensor_error([&](ModelFile& model) {
                llama3(model);
                model.tensors["rope_freqs.weight"] = {{8}, gguf::TensorType::f32, 1, 0};
              }).ok());
}

TEST_F(LlamaConfigTest, TheVocabularyMayBePaddedButNotTooSmall) {
  const auto with_texts = [](std::size_t count) {
    return [count](ModelFile& model) {
      model.text_lists["tokenizer.ggml.tokens"] = std::vector<std::string>(count, "x");
    };
  };
  EXPECT_TRUE(config_error(with_texts(70)).ok());
  expect_invalid(config_error(with_texts(78)), "the tokenizer has 78 tokens");
}

TEST_F(LlamaConfigTest, AVocabularyWithoutWeightsIsNoModel) {
  expect_invalid(config_error([](ModelFile& model) { model.tensors.clear(); }),
                 "no weights (only a vocabulary)");
}

TEST_F(LlamaConfigTest, NamesTheTensorThatIsMissing) {
  for (const auto& [name, spec] : ModelFile().tensors) {
    // Without this one the layer does not count.
    if (name.ends_with("attn_norm.weight")) continue;
    expect_invalid(tensor_error([&](ModelFile& model) { model.tensors.erase(name); }), name);
  }
}

TEST_F(LlamaConfigTest, NamesTheTensorOfTheWrongShapeAndBothShapes) {
  expect_invalid(
      tensor_error([](ModelFile& model) { model.add_matrix("blk.1.attn_k.weight", 64, 33); }),
      "the tensor blk.1.attn_k.weight has the shape [64, 33], expected [64, 32]");
  expect_invalid(
      tensor_error([](ModelFile& model) { model.tensors["output_norm.weight"].dims = {63}; }),
      "the tensor output_norm.weight has the shape [63], expected [64]");
  expect_invalid(tensor_error([](ModelFile& model) { model.add_matrix("output.weight", 64, 76); }),
                 "output.weight");
  // Dimensions of 1 at the end say nothing.
  EXPECT_TRUE(tensor_error([](ModelFile& model) {
                model.tensors["output_norm.weight"].dims = {64, 1};
              }).ok());
}

TEST_F(LlamaConfigTest, RefusesATensorOfUnknownRole) {
  expect_unimplemented(
      tensor_error([](ModelFile& model) { model.tensors["blk.0.attn_q_norm.weight"] = {{16}}; }),
      "blk.0.attn_q_norm.weight");
}

TEST_F(LlamaConfigTest, RefusesAQuantizedVector) {
  expect_unimplemented(tensor_error([](ModelFile& model) {
                         model.tensors["output_norm.weight"].type = gguf::TensorType::q8_0;
                       }),
                       "output_norm.weight is quantized");
}

TEST_F(LlamaConfigTest, RefusesFactorsThatAreNoPositiveNumbers) {
  expect_invalid(tensor_error([](ModelFile& model) {
                   model.tensors["rope_freqs.weight"] = {{8}, gguf::TensorType::f32, 0, 0};
                 }),
                 "rope_freqs.weight holds the factor");
}

TEST_F(LlamaConfigTest, FrequenciesFollowTheFormula) {
  LlamaConfig config;
  config.rope_dims = 8;
  config.rope_base = 10000;
  config.rope_linear_factor = 4;
  const auto frequencies = rope_frequencies(config, std::nullopt);
  ASSERT_TRUE(frequencies);
  EXPECT_THAT(*frequencies,
              testing::ElementsAre(testing::DoubleEq(0.25), testing::DoubleEq(0.025),
                                   testing::DoubleEq(0.0025), testing::DoubleEq(0.00025)));
}

}  // namespace
}  // namespace terrace::inference
