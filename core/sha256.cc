#include "core/sha256.h"

#include <openssl/evp.h>

#include <new>

#include "core/bytes.h"

namespace terrace {

namespace {
// One fetch for the process: looking the algorithm up costs more than hashing a block's tokens.
const EVP_MD* algorithm() {
  static EVP_MD* const fetched = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return fetched;
}
}  // namespace

struct FieldHasher::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() {
    if (!context || !algorithm() || EVP_DigestInit_ex2(context, algorithm(), nullptr) != 1)
      throw std::bad_alloc();
  }
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

FieldHasher::FieldHasher(std::string_view domain) : state_(std::make_unique<State>()) {
  text(0, domain);
}
FieldHasher::~FieldHasher() = default;

FieldHasher& FieldHasher::bytes(std::uint8_t tag, std::span<const std::uint8_t> value) {
  std::array<std::uint8_t, 9> frame;
  frame[0] = tag;
  store_le<std::uint64_t>(frame.data() + 1, value.size());
  EVP_DigestUpdate(state_->context, frame.data(), frame.size());
  EVP_DigestUpdate(state_->context, value.data(), value.size());
  return *this;
}

FieldHasher& FieldHasher::text(std::uint8_t tag, std::string_view value) {
  return bytes(tag, {reinterpret_cast<const std::uint8_t*>(value.data()), value.size()});
}

FieldHasher& FieldHasher::number(std::uint8_t tag, std::uint64_t value) {
  std::array<std::uint8_t, 8> encoded;
  store_le(encoded.data(), value);
  return bytes(tag, encoded);
}

Digest FieldHasher::finish() {
  Digest digest;
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  return digest;
}

Digest sha256(std::span<const std::uint8_t> value) {
  Digest digest;
  EVP_Digest(value.data(), value.size(), digest.data(), nullptr, algorithm(), nullptr);
  return digest;
}

}  // namespace terrace
