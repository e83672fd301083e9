#include "core/sha256.h"

#include <openssl/evp.h>

#include <cstring>
#include <new>
#include <utility>

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
  // A context of each thread is used again: making one takes longer than hashing a block's tokens.
  struct Context {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    Context() = default;
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    ~Context() { EVP_MD_CTX_free(context); }
  };
  static std::unique_ptr<Context>& spare() {
    thread_local std::unique_ptr<Context> context;
    return context;
  }

  std::unique_ptr<Context> owned = std::move(spare());
  EVP_MD_CTX* context = nullptr;
  // Short fields are gathered, since each call costs as much as hashing a few of them.
  std::array<std::uint8_t, 512> gathered;
  std::size_t gathered_bytes = 0;

  State() {
    if (!owned) owned = std::make_unique<Context>();
    context = owned->context;
    if (!context || !algorithm() || EVP_DigestInit_ex2(context, algorithm(), nullptr) != 1)
      throw std::bad_alloc();
  }
  ~State() { spare() = std::move(owned); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void flush() {
    EVP_DigestUpdate(context, gathered.data(), gathered_bytes);
    gathered_bytes = 0;
  }
  void add(const std::uint8_t* data, std::size_t bytes) {
    if (bytes > gathered.size() - gathered_bytes) {
      flush();
      if (bytes > gathered.size()) {
        EVP_DigestUpdate(context, data, bytes);
        return;
      }
    }
    if (bytes > 0) std::memcpy(gathered.data() + gathered_bytes, data, bytes);
    gathered_bytes += bytes;
  }
};

FieldHasher::FieldHasher(std::string_view domain) : state_(std::make_unique<State>()) {
  text(0, domain);
}
FieldHasher::~FieldHasher() = default;

FieldHasher& FieldHasher::bytes(std::uint8_t tag, std::span<const std::uint8_t> value) {
  std::array<std::uint8_t, 9> frame;
  frame[0] = tag;
  store_le<std::uint64_t>(frame.data() + 1, value.size());
  state_->add(frame.data(), frame.size());
  state_->add(value.data(), value.size());
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
  state_->flush();
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  return digest;
}

Digest sha256(std::span<const std::uint8_t> value) {
  Digest digest;
  EVP_Digest(value.data(), value.size(), digest.data(), nullptr, algorithm(), nullptr);
  return digest;
}

}  // namespace terrace
