#include "tests/inference/model/model_file.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/support/gguf_writer.h"
#include "tests/support/quantize.h"

namespace terrace::inference {

ModelFile::ModelFile() {
  constexpr std::uint32_t layers = 2, embedding = 64, feed_forward = 96, heads = 4, kv_heads = 2,
                          head_dim = 16, vocabulary = 77;
  texts["general.architecture"] = "llama";
  integers = {{"llama.block_count", layers},         {"llama.context_length", 512},
              {"llama.embedding_length", embedding}, {"llama.feed_forward_length", feed_forward},
              {"llama.attention.head_count", heads}, {"llama.attention.head_count_kv", kv_heads}};
  numbers["llama.attention.layer_norm_rms_epsilon"] = 1e-5f;
  tensors["token_embd.weight"] = {{embedding, vocabulary}};
  const TensorSpec norm{{embedding}, gguf::TensorType::f32, 1, 0.1f};
  tensors["output_norm.weight"] = norm;
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = "blk." + std::to_string(layer) + ".";
    tensors[prefix + "attn_norm.weight"] = norm;
    tensors[prefix + "ffn_norm.weight"] = norm;
    add_matrix(prefix + "attn_q.weight", embedding, heads * head_dim);
    add_matrix(prefix + "attn_k.weight", embedding, kv_heads * head_dim);
    add_matrix(prefix + "attn_v.weight", embedding, kv_heads * head_dim);
    add_matrix(prefix + "attn_output.weight", heads * head_dim, embedding);
    add_matrix(prefix + "ffn_gate.weight", embedding, feed_forward);
    add_matrix(prefix + "ffn_up.weight", embedding, feed_forward);
    add_matrix(prefix + "ffn_down.weight", feed_forward, embedding);
  }
}

void ModelFile::add_matrix(const std::string& name, std::uint64_t inputs, std::uint64_t outputs) {
  tensors[name] = {
      {inputs, outputs}, gguf::TensorType::f32, 0, 1.5f / std::sqrt(static_cast<float>(inputs))};
}

std::unique_ptr<gguf::File> ModelFile::open(const std::string& path) const {
  test_support::GgufWriter writer;
  for (const auto& [key, value] : texts) writer.add<std::string>(key, value);
  for (const auto& [key, value] : integers) writer.add<std::uint32_t>(key, value);
  for (const auto& [key, value] : numbers) writer.add<float>(key, value);
  for (const auto& [key, values] : integer_lists) writer.add_array(key, values);
  for (const auto& [key, values] : text_lists) writer.add_array(key, values);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (const auto& [name, spec] : tensors) {
    std::size_t count = 1;
    for (const std::uint64_t dim : spec.dims) count *= dim;
    std::vector<float> values(count);
    for (float& value : values) value = spec.mean + spec.deviation * normal(random);
    writer.add_tensor(name, spec.type, spec.dims, test_support::quantize(spec.type, values));
  }
  Status status = writer.write(path);
  auto file = gguf::File::open(path);
  if (!status.ok() || !file) {
    std::fprintf(stderr, "%s %s\n", status.to_string().c_str(),
                 file ? "" : file.error().to_string().c_str());
    std::abort();
  }
  return std::move(*file);
}

}  // namespace terrace::inference
