#include "inference/model/llama_config.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::inference {

namespace {

std::string full_key(std::string_view key) { return "llama." + std::string(key); }

// Reads keys until the first one that is wrong; what follows an error is not looked at.
class Reader {
 public:
  explicit Reader(const gguf::File& file) : file_(file) {}

  const Status& status() const { return status_; }
  bool has(std::string_view key) const { return file_.has(full_key(key)); }

  void fail(StatusCode code, std::string message) {
    if (status_.ok()) status_ = Status(code, std::move(message));
  }

  // An integer in [least, most]; `fallback` if the key is absent, an error if there is none.
  std::uint32_t integer(std::string_view key, std::uint32_t least, std::uint32_t most,
                        std::optional<std::uint32_t> fallback = std::nullopt) {
    const std::string name = full_key(key);
    if (!file_.has(name)) {
      if (!fallback) fail(StatusCode::invalid_argument, "the key " + name + " is missing");
      return fallback.value_or(0);
    }
    const auto value = file_.unsigned_integer(name);
    if (!value) {
      fail(StatusCode::invalid_argument, "the key " + name + " is no unsigned integer");
      return 0;
    }
    return in_range(name, *value, least, most);
  }

  // One value for all layers. Files may list one a layer; equal ones are the same thing.
  std::uint32_t per_layer_integer(std::string_view key, std::uint32_t least, std::uint32_t most,
                                  std::uint32_t layers,
                                  std::optional<std::uint32_t> fallback = std::nullopt) {
    const std::string name = full_key(key);
    const std::vector<std::uint64_t> values = file_.unsigned_integers(name);
    if (values.empty()) return integer(key, least, most, fallback);
    if (values.size() != layers) {
      fail(StatusCode::invalid_argument, name + " has " + std::to_string(values.size()) +
                                             " values for " + std::to_string(layers) + " layers");
      return 0;
    }
    for (const std::uint64_t value : values) {
      if (value != values.front()) {
        fail(StatusCode::unimplemented, name + " differs between layers (" +
                                            std::to_string(values.front()) + " and " +
                                            std::to_string(value) + "), which is not supported");
        return 0;
      }
    }
    return in_range(name, values.front(), least, most);
  }

  // A finite number in (0, most].
  float positive(std::string_view key, double most, std::optional<float> fallback = std::nullopt) {
    const std::string name = full_key(key);
    if (!file_.has(name)) {
      if (!fallback) fail(StatusCode::invalid_argument, "the key " + name + " is missing");
      return fallback.value_or(0);
    }
    const auto value = file_.number(name);
    if (!value) {
      fail(StatusCode::invalid_argument, "the key " + name + " is no number");
      return 0;
    }
    // Also as a float: what the kernels would see must not be 0 either.
    if (!(static_cast<float>(*value) > 0) || !(*value <= most)) {
      fail(StatusCode::invalid_argument, name + " is " + std::to_string(*value) +
                                             ", which is not in (0, " + std::to_string(most) + "]");
      return 0;
    }
    return static_cast<float>(*value);
  }

  // Refuses a key whose value, unless it is zero, changes the arithmetic in a way not known here.
  void refuse(std::string_view key, std::string_view what) {
    const auto value = file_.number(full_key(key));
    if (value && *value != 0)
      fail(StatusCode::unimplemented,
           full_key(key) + " asks for " + std::string(what) + ", which is not supported");
  }

 private:
  std::uint32_t in_range(const std::string& name, std::uint64_t value, std::uint32_t least,
                         std::uint32_t most) {
    if (value >= least && value <= most) return static_cast<std::uint32_t>(value);
    fail(StatusCode::invalid_argument, name + " is " + std::to_string(value) +
                                           ", expected between " + std::to_string(least) + " and " +
                                           std::to_string(most));
    return 0;
  }

  const gguf::File& file_;
  Status status_;
};

// The factor that positions are divided by. Of the scaled variants, "llama3" arrives as factors in
// the tensor rope_freqs; the key then says nothing that is not in there.
float read_rope_scaling(const gguf::File& file, Reader& reader) {
  constexpr double max_factor = 1e6;
  const auto type = file.text("llama.rope.scaling.type");
  if (!type && reader.has("rope.scaling.type"))
    reader.fail(StatusCode::invalid_argument, "the key llama.rope.scaling.type is no text");
  if (type && *type == "none") return 1;
  if (type && *type == "llama3" && file.tensor("rope_freqs.weight")) return 1;
  if (type && *type != "linear") {
    reader.fail(StatusCode::unimplemented,
                "llama.rope.scaling.type is \"" + std::string(*type) +
                    "\"; supported are none, linear and llama3 with the tensor rope_freqs.weight");
    return 1;
  }
  // A factor without a type means linear, and older files call it scale_linear; 0 means none.
  for (const char* key : {"rope.scaling.factor", "rope.scale_linear"}) {
    if (!reader.has(key)) continue;
    if (file.number(full_key(key)) == 0.0) return 1;
    return reader.positive(key, max_factor);
  }
  return 1;
}

std::uint32_t read_vocabulary(const gguf::File& file, Reader& reader) {
  const gguf::Tensor* embedding = file.tensor("token_embd.weight");
  if (!embedding) {
    reader.fail(StatusCode::invalid_argument, file.tensors().empty()
                                                  ? "the file holds no weights (only a vocabulary)"
                                                  : "the tensor token_embd.weight is missing");
    return 0;
  }
  const std::uint64_t rows = embedding->dims.size() < 2 ? 0 : embedding->rows();
  if (rows == 0 || rows > max_vocabulary) {
    reader.fail(StatusCode::invalid_argument, "the tensor token_embd.weight has " +
                                                  std::to_string(rows) + " tokens, expected 1 to " +
                                                  std::to_string(max_vocabulary));
    return 0;
  }
  // An embedding may be padded beyond the tokens that have a text, never the other way.
  const std::size_t texts = file.texts("tokenizer.ggml.tokens").size();
  if (texts > rows) {
    reader.fail(StatusCode::invalid_argument, "the tokenizer has " + std::to_string(texts) +
                                                  " tokens, but token_embd.weight only " +
                                                  std::to_string(rows));
    return 0;
  }
  return static_cast<std::uint32_t>(rows);
}

void check_shape(const gguf::File& file, const LlamaConfig& config, Reader& reader) {
  if (config.heads % config.kv_heads != 0)
    reader.fail(StatusCode::invalid_argument,
                "llama.attention.head_count (" + std::to_string(config.heads) +
                    ") is no multiple of llama.attention.head_count_kv (" +
                    std::to_string(config.kv_heads) + ")");
  if (config.rope_dims % 2 != 0 || config.rope_dims > config.head_dim)
    reader.fail(StatusCode::invalid_argument,
                "llama.rope.dimension_count is " + std::to_string(config.rope_dims) +
                    ", expected an even number of at most " + std::to_string(config.head_dim));
  // block_count must be what the tensors say: fewer would silently drop layers.
  std::uint32_t present = 0;
  while (present <= max_layers &&
         file.tensor("blk." + std::to_string(present) + ".attn_norm.weight"))
    ++present;
  if (present != config.layers)
    reader.fail(StatusCode::invalid_argument,
                "llama.block_count is " + std::to_string(config.layers) +
                    ", but the file has the tensors of " + std::to_string(present) + " layers");
}

}  // namespace

Result<LlamaConfig> read_llama_config(const gguf::File& file) {
  const auto architecture = file.text("general.architecture");
  if (!architecture)
    return error(StatusCode::invalid_argument, "the key general.architecture is missing");
  if (*architecture != "llama")
    return error(StatusCode::invalid_argument, "general.architecture is \"" +
                                                   std::string(*architecture) +
                                                   "\"; only \"llama\" is supported");

  Reader reader(file);
  reader.refuse("expert_count", "a mixture of experts");
  reader.refuse("attention.sliding_window", "attention over a sliding window");
  reader.refuse("attention.scale", "another scale of the attention scores");
  reader.refuse("attention.clamp_kqv", "clamped keys and values");
  reader.refuse("logit_scale", "scaled logits");
  reader.refuse("residual_scale", "scaled residuals");
  reader.refuse("embedding_scale", "scaled embeddings");

  LlamaConfig config;
  config.layers = reader.integer("block_count", 1, max_layers);
  config.context_length = reader.integer("context_length", 1, max_context_length);
  config.embedding = reader.integer("embedding_length", 1, max_embedding);
  config.feed_forward =
      reader.per_layer_integer("feed_forward_length", 1, max_feed_forward, config.layers);
  config.heads = reader.per_layer_integer("attention.head_count", 1, max_heads, config.layers);
  config.kv_heads = reader.per_layer_integer("attention.head_count_kv", 1, max_heads, config.layers,
                                             config.heads);
  config.rms_epsilon = reader.positive("attention.layer_norm_rms_epsilon", 1);
  if (!reader.status().ok()) return error(reader.status());

  if (!reader.has("attention.key_length") && config.embedding % config.heads != 0)
    return error(StatusCode::invalid_argument,
                 "llama.embedding_length (" + std::to_string(config.embedding) +
                     ") is no multiple of llama.attention.head_count (" +
                     std::to_string(config.heads) + ") and there is no llama.attention.key_length");
  const std::uint32_t even_share = config.embedding / config.heads;
  if (!reader.has("attention.key_length") && even_share > max_head_dim)
    return error(StatusCode::invalid_argument,
                 "llama.embedding_length / llama.attention.head_count is " +
                     std::to_string(even_share) + ", expected at most " +
                     std::to_string(max_head_dim));
  config.head_dim = reader.integer("attention.key_length", 1, max_head_dim, even_share);
  const std::uint32_t value_dim =
      reader.integer("attention.value_length", 1, max_head_dim, even_share);
  if (reader.status().ok() && value_dim != config.head_dim)
    return error(StatusCode::unimplemented,
                 "llama.attention.key_length (" + std::to_string(config.head_dim) +
                     ") and llama.attention.value_length (" + std::to_string(value_dim) +
                     ") differ, which is not supported");
  config.rope_dims = reader.integer("rope.dimension_count", 1, max_head_dim, config.head_dim);
  config.rope_base = reader.positive("rope.freq_base", 1e12, 10000.0f);
  config.rope_linear_factor = read_rope_scaling(file, reader);
  config.vocabulary = read_vocabulary(file, reader);
  if (!reader.status().ok()) return error(reader.status());

  check_shape(file, config, reader);
  if (!reader.status().ok()) return error(reader.status());
  return config;
}

}  // namespace terrace::inference
