#include "inference/model/cpu_forward_pass.h"

#include <algorithm>
#include <utility>

namespace terrace::inference {

namespace {

std::size_t qkv_width(const LlamaConfig& config) {
  return config.query_width() + 2 * std::size_t{config.kv_width()};
}

float* floats(const AlignedBuffer& memory) { return reinterpret_cast<float*>(memory.data()); }

}  // namespace

CpuForwardPass::CpuForwardPass(const CpuPassSettings& settings, const LlamaWeights& weights,
                               std::vector<double> rope_frequencies, Team& team)
    : settings_(settings),
      weights_(weights),
      team_(team),
      rope_(std::move(rope_frequencies)),
      attention_(*settings.kernels, settings.compute, settings.geometry, settings.config.heads,
                 team.threads(), settings.shared_prefixes),
      residual_memory_(settings.max_rows * settings.config.embedding * sizeof(float)),
      qkv_memory_(settings.max_rows * qkv_width(settings.config) * sizeof(float)),
      gate_up_memory_(settings.max_rows * 2 * settings.config.feed_forward * sizeof(float)),
      residual_(floats(residual_memory_)),
      qkv_(floats(qkv_memory_)),
      gate_up_(floats(gate_up_memory_)),
      normed_(*settings.kernels, settings.compute, settings.config.embedding, settings.max_rows),
      attended_(*settings.kernels, settings.compute, settings.config.query_width(),
                settings.max_rows),
      activated_(*settings.kernels, settings.compute, settings.config.feed_forward,
                 settings.max_rows),
      head_input_(*settings.kernels, settings.compute, settings.config.embedding,
                  settings.max_rows) {
  rows_.reserve(settings.max_rows);
  sequences_.reserve(settings.max_rows);
}

void CpuForwardPass::run(std::span<const PassPiece> pieces, std::span<const std::size_t> logit_rows,
                         float* logits) {
  place_rows(pieces);
  attention_.begin(sequences_);
  team_.run([&](TeamMember member) {
    look_up_embeddings(member);
    for (std::uint32_t layer = 0; layer < settings_.config.layers; ++layer) {
      attention_layer(member, layer);
      feed_forward_layer(member, layer);
    }
    output_head(member, logit_rows, logits);
  });
}

void CpuForwardPass::place_rows(std::span<const PassPiece> pieces) {
  rows_.clear();
  sequences_.clear();
  std::size_t positions = 0;
  for (const PassPiece& piece : pieces) {
    sequences_.push_back({.first_row = rows_.size(),
                          .tokens = static_cast<std::uint32_t>(piece.tokens.size()),
                          .first_position = piece.first_position,
                          .blocks = piece.blocks});
    std::uint32_t position = piece.first_position;
    for (const Token token : piece.tokens) rows_.push_back({token, position++});
    positions = std::max<std::size_t>(positions, position);
  }
  if (positions > rope_positions_) {
    // In strides, so that decoding does not grow the table token by token.
    constexpr std::size_t stride = 1024;
    const std::size_t end = (positions + stride - 1) / stride * stride;
    rope_.ensure(end);  // may throw: then the table is what it was
    rope_positions_ = end;
  }
}

void CpuForwardPass::look_up_embeddings(TeamMember member) {
  const std::size_t embedding = settings_.config.embedding;
  const Range mine = split(rows_.size(), member);
  for (std::size_t row = mine.begin; row < mine.end; ++row)
    weights_.embedding.look_up(rows_[row].token, residual_ + row * embedding);
}

void CpuForwardPass::add_bias(TeamMember member, const std::vector<float>& bias, float* y) {
  if (bias.empty()) return;
  member.barrier();
  const Range mine = split(rows_.size(), member);
  for (std::size_t row = mine.begin; row < mine.end; ++row)
    add(*settings_.kernels, y + row * bias.size(), bias.data(), bias.size());
}

// Each thread normalizes the rows whose embedding it looked up or whose bias it added, so that only
// products and attention, which cross rows, need the others' work.
void CpuForwardPass::attention_layer(TeamMember member, std::uint32_t index) {
  const LlamaConfig& config = settings_.config;
  const KernelTable& kernels = *settings_.kernels;
  const LlamaLayerWeights& layer = weights_.layers[index];
  const std::size_t width = qkv_width(config), rows = rows_.size();
  const Range mine = split(rows, member);

  rms_norm(kernels, residual_, config.embedding, layer.attention_norm.data(), config.rms_epsilon,
           mine, normed_);
  member.barrier();
  linear(member, kernels, layer.query_key_value, normed_, 0, rows, qkv_, width);
  add_bias(member, layer.query_key_value_bias, qkv_);
  member.barrier();
  float* const keys = qkv_ + config.query_width();
  float* const values = keys + config.kv_width();
  for (std::size_t row = mine.begin; row < mine.end; ++row) {
    const std::uint32_t position = rows_[row].position;
    rope(kernels, rope_, position, qkv_ + row * width, config.heads, config.head_dim);
    rope(kernels, rope_, position, keys + row * width, config.kv_heads, config.head_dim);
  }
  attention_.store_kv(index, keys, width, values, width, mine);
  member.barrier();
  attention_.attend(member, index, qkv_, width, attended_);
  member.barrier();
  linear(member, kernels, layer.attention_output, attended_, 0, rows, residual_, config.embedding,
         LinearOutput::add);
  add_bias(member, layer.attention_output_bias, residual_);
  member.barrier();
}

void CpuForwardPass::feed_forward_layer(TeamMember member, std::uint32_t index) {
  const LlamaConfig& config = settings_.config;
  const KernelTable& kernels = *settings_.kernels;
  const LlamaLayerWeights& layer = weights_.layers[index];
  const std::size_t width = 2 * std::size_t{config.feed_forward}, rows = rows_.size();
  const Range mine = split(rows, member);

  rms_norm(kernels, residual_, config.embedding, layer.feed_forward_norm.data(), config.rms_epsilon,
           mine, normed_);
  member.barrier();
  linear(member, kernels, layer.gate_up, normed_, 0, rows, gate_up_, width);
  add_bias(member, layer.gate_up_bias, gate_up_);
  member.barrier();
  silu_up(kernels, gate_up_, width, mine, activated_);
  member.barrier();
  linear(member, kernels, layer.down, activated_, 0, rows, residual_, config.embedding,
         LinearOutput::add);
  add_bias(member, layer.down_bias, residual_);
  member.barrier();
}

void CpuForwardPass::output_head(TeamMember member, std::span<const std::size_t> logit_rows,
                                 float* logits) {
  const LlamaConfig& config = settings_.config;
  if (logit_rows.empty()) return;
  const Range mine = split(logit_rows.size(), member);
  for (std::size_t i = mine.begin; i < mine.end; ++i) {
    // Row i of the head's input comes from another row of the residual stream. With a pitch of 0
    // that one is every row.
    constexpr std::size_t pitch = 0;
    rms_norm(*settings_.kernels, residual_ + logit_rows[i] * config.embedding, pitch,
             weights_.output_norm.data(), config.rms_epsilon, {i, i + 1}, head_input_);
  }
  member.barrier();
  linear(member, *settings_.kernels, weights_.head, head_input_, 0, logit_rows.size(), logits,
         config.vocabulary);
}

}  // namespace terrace::inference
