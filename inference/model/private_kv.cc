#include "inference/model/private_kv.h"

#include <utility>

namespace terrace::inference {

Status PrivateKv::reserve(std::size_t tokens) {
  while (capacity_tokens() < tokens) {
    auto block = kv_memory_.allocate(geometry_.block_bytes());
    if (!block) return block.error();
    addresses_.push_back(block->get());
    blocks_.push_back(std::move(*block));
  }
  return {};
}

}  // namespace terrace::inference
