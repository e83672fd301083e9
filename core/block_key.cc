#include "core/block_key.h"

#include "core/bytes.h"

namespace terrace {

namespace {
enum Tag : std::uint8_t { tag_parent = 1, tag_tokens = 2, tag_extra = 3 };
}

std::string BlockKey::hex() const { return to_hex(bytes); }

BlockKey derive_block_key(const BlockKey& parent, std::span<const Token> tokens,
                          std::span<const std::string> extra) {
  FieldHasher hasher("terrace.block.1");
  hasher.bytes(tag_parent, parent.bytes);
  hasher.bytes(tag_tokens,
               {reinterpret_cast<const std::uint8_t*>(tokens.data()), tokens.size_bytes()});
  for (const std::string& one : extra) hasher.text(tag_extra, one);
  return {hasher.finish()};
}

std::vector<BlockKey> derive_block_keys(const BlockKey& space_digest, std::span<const Token> tokens,
                                        std::uint32_t block_tokens) {
  std::vector<BlockKey> keys;
  keys.reserve(tokens.size() / block_tokens);
  BlockKey parent = space_digest;
  for (std::size_t first = 0; first + block_tokens <= tokens.size(); first += block_tokens) {
    parent = derive_block_key(parent, tokens.subspan(first, block_tokens));
    keys.push_back(parent);
  }
  return keys;
}

}  // namespace terrace
