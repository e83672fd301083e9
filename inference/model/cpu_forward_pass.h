// One pass of rows through the layers, on all threads of the team.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_layout.h"
#include "inference/cpu/aligned_buffer.h"
#include "inference/cpu/attention.h"
#include "inference/cpu/elementwise.h"
#include "inference/cpu/linear.h"
#include "inference/cpu/team.h"
#include "inference/model/backend.h"
#include "inference/model/llama_config.h"
#include "inference/model/llama_weights.h"

namespace terrace::inference {

// What the arithmetic of a model needs beside the weights.
struct CpuPassSettings {
  LlamaConfig config;
  const KernelTable* kernels = nullptr;
  Compute compute = Compute::bf16;
  KvGeometry geometry;
  std::size_t max_rows = 1;  // of one pass
  SharedPrefixes shared_prefixes = SharedPrefixes::together;
};

// Owns the activations. Throws std::bad_alloc from the constructor, and from run() where the table
// of angles has to grow; nothing else throws.
class CpuForwardPass {
 public:
  // `weights` and `team` outlive it.
  CpuForwardPass(const CpuPassSettings& settings, const LlamaWeights& weights,
                 std::vector<double> rope_frequencies, Team& team);

  // Computes the KV of the tokens of all pieces (at most max_rows together) and, for each row in
  // `logit_rows` (ascending, rows counted over the pieces), its logits into logits[i * vocabulary].
  void run(std::span<const PassPiece> pieces, std::span<const std::size_t> logit_rows,
           float* logits);

 private:
  struct Row {
    Token token;
    std::uint32_t position;
  };

  void place_rows(std::span<const PassPiece> pieces);
  void look_up_embeddings(TeamMember member);
  void attention_layer(TeamMember member, std::uint32_t index);
  void feed_forward_layer(TeamMember member, std::uint32_t index);
  void output_head(TeamMember member, std::span<const std::size_t> logit_rows, float* logits);
  // Adds `bias`, if there is one, to this thread's rows of y and waits for the others' outputs
  // first. Needs a barrier after.
  void add_bias(TeamMember member, const std::vector<float>& bias, float* y);

  CpuPassSettings settings_;
  const LlamaWeights& weights_;
  Team& team_;
  RopeTable rope_;
  std::size_t rope_positions_ = 0;
  AttentionPlan attention_;

  std::vector<Row> rows_;
  std::vector<AttentionSequence> sequences_;
  AlignedBuffer residual_memory_, qkv_memory_, gate_up_memory_;
  float* residual_;  // [row][embedding]
  float* qkv_;       // [row][query, key, value]
  float* gate_up_;   // [row][gate, up]
  PreparedRows normed_, attended_, activated_, head_input_;
};

}  // namespace terrace::inference
