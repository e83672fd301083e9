// SHA-256 over length-framed, tagged fields. Framing keeps ("a", "bc") and ("ab", "c") apart; tags
// keep an adapter's name and a salt of the same text apart.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace terrace {

using Digest = std::array<std::uint8_t, 32>;

// Collects fields and hashes them. Use once: after finish() the object may only be destroyed.
class FieldHasher {
 public:
  // `domain` names what is hashed, with a version, such as "terrace.block.1".
  explicit FieldHasher(std::string_view domain);
  ~FieldHasher();
  FieldHasher(const FieldHasher&) = delete;
  FieldHasher& operator=(const FieldHasher&) = delete;

  FieldHasher& bytes(std::uint8_t tag, std::span<const std::uint8_t> value);
  FieldHasher& text(std::uint8_t tag, std::string_view value);
  FieldHasher& number(std::uint8_t tag, std::uint64_t value);

  Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Plain SHA-256 of `value`.
Digest sha256(std::span<const std::uint8_t> value);

}  // namespace terrace
