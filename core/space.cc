#include "core/space.h"

#include <bit>

namespace terrace {

BlockKey SpaceDescriptor::digest() const {
  FieldHasher hasher("terrace.space.1");
  hasher.bytes(1, model_digest)
      .text(2, numerics_id)
      .text(3, kv_dtype)
      .text(4, layout_id)
      .number(5, block_tokens)
      .number(6, block_bytes)
      .number(7, tensor_parallel_rank)
      .number(8, tensor_parallel_size)
      .text(9, adapter)
      .text(10, adapter_revision)
      .text(11, tenant);
  return {hasher.finish()};
}

Status SpaceDescriptor::validate() const {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::invalid_argument, std::move(message));
  };
  if (!std::has_single_bit(block_tokens) || block_tokens > max_block_tokens)
    return invalid("block_tokens is " + std::to_string(block_tokens) +
                   "; expected a power of two up to " + std::to_string(max_block_tokens));
  if (block_bytes == 0 || block_bytes % 64 != 0 || block_bytes > max_block_bytes)
    return invalid("block_bytes is " + std::to_string(block_bytes) +
                   "; expected a multiple of 64 up to " + std::to_string(max_block_bytes));
  if (tensor_parallel_size == 0 || tensor_parallel_rank >= tensor_parallel_size)
    return invalid("tensor-parallel rank " + std::to_string(tensor_parallel_rank) + " of " +
                   std::to_string(tensor_parallel_size) + " does not exist");
  constexpr std::size_t max_text = 256;
  for (const auto& [name, text] :
       {std::pair<const char*, const std::string&>{"numerics_id", numerics_id},
        {"kv_dtype", kv_dtype},
        {"layout_id", layout_id},
        {"adapter", adapter},
        {"adapter_revision", adapter_revision},
        {"tenant", tenant},
        {"label", label}}) {
    if (text.size() > max_text) return invalid(std::string(name) + " is longer than 256 bytes");
  }
  return {};
}

}  // namespace terrace
