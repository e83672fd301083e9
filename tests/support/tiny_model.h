// Small random models of the llama architecture, as GGUF files: what tests run where no real model
// is there. Equal options give equal bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::test_support {

enum class TinyTokenizer {
  llama_bpe,      // byte-level BPE, pre-tokenizer "llama-bpe"
  smollm,         // the same vocabulary, pre-tokenizer "smollm"
  sentencepiece,  // model "llama": scores and byte tokens
};

struct TinyModelOptions {
  std::uint64_t seed = 1;
  std::uint32_t layers = 2;
  std::uint32_t embedding = 128;
  std::uint32_t feed_forward = 256;
  std::uint32_t heads = 4;
  std::uint32_t kv_heads = 2;
  std::uint32_t head_dim = 32;
  std::uint32_t vocabulary = 320;  // at least 300
  std::uint32_t context_length = 2048;
  bool tied = true;  // no output.weight

  // Of matrices; norms are F32. F32, F16, BF16, Q8_0, Q4_0 or Q4_1. The inner dimensions
  // (embedding, feed_forward, heads * head_dim) must be multiples of the type's block.
  gguf::TensorType type = gguf::TensorType::f32;

  float rope_base = 10000;
  float rope_linear_factor = 0;   // written as rope.scaling of type linear if not 0
  std::vector<float> rope_freqs;  // written as rope_freqs.weight if not empty: head_dim / 2 of them

  TinyTokenizer tokenizer = TinyTokenizer::llama_bpe;
  bool add_bos = false;
  std::string chat_template = chatml_template;  // left out if empty

  // Jinja, as files have it.
  static const char* const chatml_template;
};

// The last tokens of every vocabulary, all of them control tokens.
struct TinySpecialTokens {
  std::int32_t im_start, im_end, bos, eos;
};
TinySpecialTokens special_tokens(const TinyModelOptions& options);

// invalid_argument if the options contradict each other, io_error if the file cannot be written.
Status write_tiny_model(const TinyModelOptions& options, const std::string& path);

}  // namespace terrace::test_support
