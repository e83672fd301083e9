// The kernels between the products, a block of threads a row.
#pragma once

#include "inference/cuda/kernels/kernel_args.h"

namespace terrace::inference::gpu {

template <class Group>
TERRACE_KERNEL_FUNCTION void embed(Group& group, const EmbedArgs& args) {
  const std::uint64_t row = group.index(), width = args.width;
  const Bf16* const from = args.table + static_cast<std::uint64_t>(args.tokens[row]) * width;
  group.each([&](unsigned thread) {
    for (std::uint64_t i = thread; i < width; i += group.threads())
      args.residual[row * width + i] = to_float(from[i]);
  });
}

template <class Group>
TERRACE_KERNEL_FUNCTION void rms_norm(Group& group, const RmsNormArgs& args) {
  const std::uint64_t row = group.index(), width = args.width;
  const float* const x = args.x + (args.rows ? args.rows[row] : row) * width;
  typename Group::template PerThread<float> squares;
  group.each([&](unsigned thread) {
    squares[thread] = 0;
    for (std::uint64_t i = thread; i < width; i += group.threads()) squares[thread] += x[i] * x[i];
  });
  const float mean = group.sum(squares) / static_cast<float>(width);
  const float scale = 1 / sqrtf(mean + args.epsilon);
  group.each([&](unsigned thread) {
    for (std::uint64_t i = thread; i < width; i += group.threads())
      args.out[row * width + i] = to_bf16(x[i] * scale * args.weight[i]);
  });
}

template <class Group>
TERRACE_KERNEL_FUNCTION void add_bias(Group& group, const AddBiasArgs& args) {
  float* const y = args.y + static_cast<std::uint64_t>(group.index()) * args.width;
  group.each([&](unsigned thread) {
    for (std::uint32_t i = thread; i < args.width; i += group.threads()) y[i] += args.bias[i];
  });
}

template <class Group>
TERRACE_KERNEL_FUNCTION void silu_up(Group& group, const SiluUpArgs& args) {
  const std::uint64_t row = group.index(), width = args.width;
  const float* const gate = args.gate_up + row * 2 * width;
  const float* const up = gate + width;
  group.each([&](unsigned thread) {
    for (std::uint64_t i = thread; i < width; i += group.threads())
      args.out[row * width + i] = to_bf16(gate[i] / (1 + expf(-gate[i])) * up[i]);
  });
}

// Value `dim` of a head that is rotated.
TERRACE_KERNEL_FUNCTION float rotated(const float* head, const float* angles, std::uint32_t dim,
                                      std::uint32_t rope_dims) {
  if (dim >= rope_dims) return head[dim];
  return head[dim] * angles[dim] + head[dim ^ 1] * angles[rope_dims + dim];
}

template <class Group>
TERRACE_KERNEL_FUNCTION void rope_store(Group& group, const RopeStoreArgs& args) {
  const std::uint64_t row = group.index();
  const std::uint32_t heads = args.heads, kv_heads = args.kv_heads, dims = args.head_dim,
                      padded = args.padded_dim;
  const float* const queries =
      args.qkv + row * (static_cast<std::uint64_t>(heads + 2 * kv_heads) * dims);
  const float* const keys = queries + heads * dims;
  const float* const values = keys + kv_heads * dims;
  const float* const angles = args.angles + row * 2 * args.rope_dims;
  const RowPlace place = args.places[row];
  Bf16* const q = args.q + row * heads * padded;
  group.each([&](unsigned thread) {
    for (std::uint32_t i = thread; i < heads * padded; i += group.threads()) {
      const std::uint32_t head = i / padded, dim = i % padded;
      q[i] = dim < dims ? to_bf16(rotated(queries + head * dims, angles, dim, args.rope_dims)) : 0;
    }
    if (!place.chunk) return;
    std::byte* const layer = place.chunk + args.layer * args.strides.layer_bytes;
    for (std::uint32_t i = thread; i < kv_heads * padded; i += group.threads()) {
      const std::uint32_t head = i / padded, dim = i % padded;
      const bool real = dim < dims;
      auto* const k = reinterpret_cast<Bf16*>(layer + head * args.strides.head_bytes);
      auto* const v = reinterpret_cast<Bf16*>(layer + head * args.strides.head_bytes +
                                              args.strides.value_bytes);
      // Keys [dim / 2][token][2 dims], values [token / 2][dim][2 tokens].
      k[(dim / 2 * chunk_tokens + place.token) * 2 + dim % 2] =
          real ? to_bf16(rotated(keys + head * dims, angles, dim, args.rope_dims)) : 0;
      v[(place.token / 2 * padded + dim) * 2 + place.token % 2] =
          real ? to_bf16(values[head * dims + dim]) : 0;
    }
  });
}

template <class Group>
TERRACE_KERNEL_FUNCTION void copy_tokens(Group& group, const CopyTokensArgs& args) {
  const std::uint32_t chunk = group.index() % args.chunks_copied;
  const std::uint32_t layer_head = group.index() / args.chunks_copied;
  const std::uint32_t layer = layer_head / args.kv_heads, head = layer_head % args.kv_heads;
  const bool keys = group.index_y() == 0;
  const std::uint64_t tile_words = chunk_tokens / 2 * args.padded_dim;
  const std::uint64_t tile =
      ((layer * 2 + (keys ? 0 : 1)) * args.kv_heads + head) * args.chunks_per_block + chunk;
  const std::uint32_t* const from = args.from + tile * tile_words;
  std::uint32_t* const to = args.to + tile * tile_words;
  const std::uint32_t left = args.tokens - chunk * chunk_tokens;
  const std::uint32_t tokens = left < chunk_tokens ? left : chunk_tokens;
  group.each([&](unsigned thread) {
    for (std::uint64_t i = thread; i < tile_words; i += group.threads()) {
      const std::uint32_t token =
          static_cast<std::uint32_t>(keys ? i % chunk_tokens : i / args.padded_dim * 2);
      if (token >= tokens) continue;
      // The second token of a pair of values may be one too many.
      to[i] = keys || token + 1 < tokens ? from[i] : from[i] & 0xffffu;
    }
  });
}

}  // namespace terrace::inference::gpu
