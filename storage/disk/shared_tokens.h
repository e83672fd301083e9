// The tokens of a block that many blocks' tokens lie together with: a start reads those of millions
// of blocks, and an allocation for each would take longer than reading them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/block_key.h"

namespace terrace::storage {

// Never change. What they lie in goes with the last of those who share it. A contiguous range.
class SharedTokens {
 public:
  SharedTokens() = default;
  // Not explicit: who has few blocks gives each its own.
  SharedTokens(std::vector<Token> tokens) : size_(tokens.size()) {
    const auto own = std::make_shared<const std::vector<Token>>(std::move(tokens));
    first_ = std::shared_ptr<const Token>(own, own->data());
  }

  const Token* data() const { return first_.get(); }
  std::size_t size() const { return size_; }
  const Token* begin() const { return data(); }
  const Token* end() const { return data() + size_; }

  friend bool operator==(const SharedTokens& a, std::span<const Token> b) {
    return std::ranges::equal(a, b);
  }

 private:
  friend class TokenPacker;
  SharedTokens(std::shared_ptr<const Token> first, std::size_t size)
      : first_(std::move(first)), size_(size) {}

  std::shared_ptr<const Token> first_;
  std::size_t size_ = 0;
};

// Copies tokens to where others lie. One thread.
class TokenPacker {
 public:
  SharedTokens copy(std::span<const Token> tokens) {
    if (tokens.size() > room_) {
      room_ = std::max(piece_tokens, tokens.size());
      piece_ = std::make_shared_for_overwrite<Token[]>(room_);
      free_ = piece_.get();
    }
    Token* const first = free_;
    std::ranges::copy(tokens, first);
    free_ += tokens.size();
    room_ -= tokens.size();
    return {std::shared_ptr<const Token>(piece_, first), tokens.size()};
  }

 private:
  static constexpr std::size_t piece_tokens = std::size_t{64} << 10;

  std::shared_ptr<Token[]> piece_;
  Token* free_ = nullptr;
  std::size_t room_ = 0;
};

}  // namespace terrace::storage
