// Everything that makes KV bytes exchangeable. Two spaces never share a block.
#pragma once

#include <cstdint>
#include <string>

#include "core/block_key.h"
#include "core/sha256.h"
#include "core/status.h"

namespace terrace {

// Named limits of a space: a block must fit a slab, a record's header must hold its tokens.
constexpr std::uint32_t max_block_tokens = 512;
constexpr std::uint64_t max_block_bytes = 64ull << 20;

struct SpaceDescriptor {
  Digest model_digest{};    // weights, architecture, RoPE
  std::string numerics_id;  // compute type and kernel generation: bit-identical paths share it
  std::string kv_dtype;     // "bf16", "f32"
  std::string layout_id;    // how bytes lie inside a block, such as "cpu-tile32"
  std::uint32_t block_tokens = 32;
  std::uint64_t block_bytes = 0;
  std::uint32_t tensor_parallel_rank = 0;
  std::uint32_t tensor_parallel_size = 1;
  std::string adapter;  // LoRA, empty for none
  std::string adapter_revision;
  std::string tenant;
  std::string label;  // for people; no part of the identity

  bool operator==(const SpaceDescriptor&) const = default;

  // SHA-256 over every field but the label. It is the parent of a first block.
  BlockKey digest() const;

  // invalid_argument that names the field if a value is absurd: block_tokens no power of two or
  // past its limit, block_bytes zero, no multiple of 64 or past its limit, a text over 256 bytes,
  // rank >= size.
  Status validate() const;
};

}  // namespace terrace
