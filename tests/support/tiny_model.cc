#include "tests/support/tiny_model.h"

#include <cmath>
#include <random>
#include <string_view>

#include "tests/support/gguf_writer.h"
#include "tests/support/quantize.h"

namespace terrace::test_support {

const char* const TinyModelOptions::chatml_template =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] "
    "+ "
    "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' "
    "}}{% endif %}";

namespace {

constexpr std::uint32_t special_count = 4, min_vocabulary = 300;
constexpr std::int32_t normal = 1, unknown = 2, control = 3, user_defined = 4, byte_token = 6;

// About standard normal, the same on every platform: four uniform numbers of 16 bits.
class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}
  float next() {
    const std::uint64_t draw = bits_();
    const auto sum = static_cast<float>((draw & 0xffff) + (draw >> 16 & 0xffff) +
                                        (draw >> 32 & 0xffff) + (draw >> 48));
    return (sum / 65536.0f - 2.0f) * 1.7320508f;  // the variance of the sum is 4/12
  }

 private:
  std::mt19937_64 bits_;
};

std::string utf8(std::uint32_t code_point) {  // below U+0800
  if (code_point < 0x80) return std::string(1, static_cast<char>(code_point));
  return {static_cast<char>(0xc0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 63))};
}

struct Vocabulary {
  std::vector<std::string> tokens, merges;
  std::vector<std::int32_t> types;
  std::vector<float> scores;

  void add(std::string token, std::int32_t type, float score = 0) {
    tokens.push_back(std::move(token));
    types.push_back(type);
    scores.push_back(score);
  }
};

// Bytes as the characters that byte-level vocabularies write for them: printable ones are
// themselves, the others follow from U+0100 on.
void add_byte_level_tokens(Vocabulary& vocabulary) {
  std::uint32_t others = 0;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    vocabulary.add(utf8(itself ? byte : 0x100 + others++), normal);
  }
  const std::string space = utf8(0x120);
  for (const char* pair :
       {"_ t", "h e", "_t he", "i n", "a n", "e r", "_ a", "o n", "r e", "_ s"}) {
    std::string merge, token;
    for (const char* c = pair; *c != 0; ++c) {
      const std::string text = *c == '_' ? space : std::string(1, *c);
      merge += text;
      if (*c != ' ') token += text;
    }
    vocabulary.merges.push_back(merge);
    vocabulary.add(token, normal);
  }
}

void add_sentencepiece_tokens(Vocabulary& vocabulary) {
  vocabulary.add("<unk>", unknown);
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    vocabulary.add(std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">", byte_token);
  }
  const std::string space = "\xe2\x96\x81";
  float score = 0;
  for (const char* piece : {"_t", "he", "_the", "in", "an", "er", "_a", "on", "re", "_s", "_",
                            "e",  "t",  "a",    "o",  "i",  "n",  "s",  "h",  "r",  "d",  "l"}) {
    std::string token;
    for (const char* c = piece; *c != 0; ++c) token += *c == '_' ? space : std::string(1, *c);
    vocabulary.add(token, normal, --score);
  }
}

Vocabulary make_vocabulary(const TinyModelOptions& options) {
  Vocabulary vocabulary;
  if (options.tokenizer == TinyTokenizer::sentencepiece) {
    add_sentencepiece_tokens(vocabulary);
  } else {
    add_byte_level_tokens(vocabulary);
  }
  for (int i = 0; vocabulary.tokens.size() < options.vocabulary - special_count; ++i) {
    vocabulary.add("<extra_" + std::to_string(i) + ">", user_defined);
  }
  for (const char* special : {"<|im_start|>", "<|im_end|>", "<|bos|>", "<|eos|>"}) {
    vocabulary.add(special, control);
  }
  return vocabulary;
}

void add_tokenizer(const TinyModelOptions& options, GgufWriter& writer) {
  const Vocabulary vocabulary = make_vocabulary(options);
  const bool byte_level = options.tokenizer != TinyTokenizer::sentencepiece;
  writer.add<std::string>("tokenizer.ggml.model", byte_level ? "gpt2" : "llama");
  if (byte_level) {
    writer.add<std::string>("tokenizer.ggml.pre",
                            options.tokenizer == TinyTokenizer::smollm ? "smollm" : "llama-bpe");
  }
  writer.add_array("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.add_array("tokenizer.ggml.token_type", vocabulary.types);
  if (byte_level) {
    writer.add_array("tokenizer.ggml.merges", vocabulary.merges);
  } else {
    writer.add_array("tokenizer.ggml.scores", vocabulary.scores);
    writer.add<std::uint32_t>("tokenizer.ggml.unknown_token_id", 0);
  }
  const TinySpecialTokens special = special_tokens(options);
  writer.add<std::uint32_t>("tokenizer.ggml.bos_token_id", special.bos);
  writer.add<std::uint32_t>("tokenizer.ggml.eos_token_id", special.eos);
  writer.add<std::uint32_t>("tokenizer.ggml.eot_token_id", special.im_end);
  writer.add<bool>("tokenizer.ggml.add_bos_token", options.add_bos);
  if (!options.chat_template.empty()) {
    writer.add<std::string>("tokenizer.chat_template", options.chat_template);
  }
}

void add_hyper_parameters(const TinyModelOptions& options, GgufWriter& writer) {
  writer.add<std::string>("general.architecture", "llama");
  writer.add<std::string>("general.name", "tiny");
  writer.add<std::uint32_t>("llama.context_length", options.context_length);
  writer.add<std::uint32_t>("llama.embedding_length", options.embedding);
  writer.add<std::uint32_t>("llama.block_count", options.layers);
  writer.add<std::uint32_t>("llama.feed_forward_length", options.feed_forward);
  writer.add<std::uint32_t>("llama.attention.head_count", options.heads);
  writer.add<std::uint32_t>("llama.attention.head_count_kv", options.kv_heads);
  writer.add<float>("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.add<float>("llama.rope.freq_base", options.rope_base);
  writer.add<std::uint32_t>("llama.rope.dimension_count", options.head_dim);
  writer.add<std::uint32_t>("llama.vocab_size", options.vocabulary);
  if (options.head_dim * options.heads != options.embedding) {
    writer.add<std::uint32_t>("llama.attention.key_length", options.head_dim);
    writer.add<std::uint32_t>("llama.attention.value_length", options.head_dim);
  }
  if (options.rope_linear_factor != 0) {
    writer.add<std::string>("llama.rope.scaling.type", "linear");
    writer.add<float>("llama.rope.scaling.factor", options.rope_linear_factor);
  }
}

class Weights {
 public:
  Weights(const TinyModelOptions& options, GgufWriter& writer)
      : options_(options), writer_(writer), random_(options.seed) {}

  void add_all() {
    const std::uint32_t embedding = options_.embedding, feed_forward = options_.feed_forward;
    const std::uint32_t queries = options_.heads * options_.head_dim;
    const std::uint32_t keys = options_.kv_heads * options_.head_dim;
    add_matrix("token_embd.weight", embedding, options_.vocabulary, 1);
    for (std::uint32_t layer = 0; layer < options_.layers; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      add_norm(prefix + "attn_norm.weight");
      add_matrix(prefix + "attn_q.weight", embedding, queries);
      add_matrix(prefix + "attn_k.weight", embedding, keys);
      add_matrix(prefix + "attn_v.weight", embedding, keys);
      add_matrix(prefix + "attn_output.weight", queries, embedding);
      add_norm(prefix + "ffn_norm.weight");
      add_matrix(prefix + "ffn_gate.weight", embedding, feed_forward);
      add_matrix(prefix + "ffn_up.weight", embedding, feed_forward);
      add_matrix(prefix + "ffn_down.weight", feed_forward, embedding);
    }
    add_norm("output_norm.weight");
    if (!options_.tied) add_matrix("output.weight", embedding, options_.vocabulary);
    if (!options_.rope_freqs.empty()) {
      add_floats("rope_freqs.weight", options_.rope_freqs);
    }
  }

 private:
  // 1.5 / sqrt(inputs): activations keep their size, and attention is neither flat nor one-hot.
  void add_matrix(const std::string& name, std::uint32_t inputs, std::uint32_t outputs) {
    add_matrix(name, inputs, outputs, 1.5f / std::sqrt(static_cast<float>(inputs)));
  }
  void add_matrix(const std::string& name, std::uint32_t inputs, std::uint32_t outputs,
                  float scale) {
    std::vector<float> values(std::size_t{inputs} * outputs);
    for (float& value : values) value = random_.next() * scale;
    writer_.add_tensor(name, options_.type, {inputs, outputs}, quantize(options_.type, values));
  }
  void add_norm(const std::string& name) {
    std::vector<float> values(options_.embedding);
    for (float& value : values) value = 1 + 0.1f * random_.next();
    add_floats(name, values);
  }
  void add_floats(const std::string& name, std::span<const float> values) {
    writer_.add_tensor(name, gguf::TensorType::f32, {values.size()},
                       quantize(gguf::TensorType::f32, values));
  }

  const TinyModelOptions& options_;
  GgufWriter& writer_;
  Random random_;
};

Status check(const TinyModelOptions& options) {
  const auto reject = [](std::string why) {
    return Status(StatusCode::invalid_argument, "tiny model: " + std::move(why));
  };
  if (options.vocabulary < min_vocabulary) return reject("the vocabulary is too small");
  if (options.kv_heads == 0 || options.heads % options.kv_heads != 0) {
    return reject("heads is not a multiple of kv_heads");
  }
  if (options.head_dim % 2 != 0) return reject("head_dim is odd");
  if (!options.rope_freqs.empty() && options.rope_freqs.size() != options.head_dim / 2) {
    return reject("rope_freqs does not have head_dim / 2 values");
  }
  const std::uint32_t block = gguf::block_shape(options.type).values;
  if (options.embedding % block != 0 || options.feed_forward % block != 0 ||
      options.heads * options.head_dim % block != 0) {
    return reject("a dimension is not a multiple of the block of " + gguf::to_string(options.type));
  }
  return {};
}

}  // namespace

TinySpecialTokens special_tokens(const TinyModelOptions& options) {
  const auto end = static_cast<std::int32_t>(options.vocabulary);
  return {end - 4, end - 3, end - 2, end - 1};
}

Status write_tiny_model(const TinyModelOptions& options, const std::string& path) {
  if (Status status = check(options); !status.ok()) return status;
  GgufWriter writer;
  add_hyper_parameters(options, writer);
  add_tokenizer(options, writer);
  Weights(options, writer).add_all();
  return writer.write(path);
}

}  // namespace terrace::test_support
