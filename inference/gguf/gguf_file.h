// A GGUF file, mapped read-only and checked while it is opened: whatever a File says lies inside
// the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/status.h"
#include "inference/gguf/mapping.h"

namespace terrace::gguf {

enum class TensorType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq4_nl = 20,
  bf16 = 30,
};

// "Q4_1"; "type 99" for one that is not known.
std::string to_string(TensorType type);
// Values and bytes of one block of a type; {0, 0} for one that is not known.
struct BlockShape {
  std::uint32_t values, bytes;
};
BlockShape block_shape(TensorType type);

struct Tensor {
  std::string name;
  TensorType type = TensorType::f32;
  // 1 to 4, none of them 0; dims[0] is contiguous: a matrix is [inputs, outputs].
  std::vector<std::uint64_t> dims;
  // Inside the mapping, rows() * row_bytes() bytes, aligned to 8 at least; empty for a type that is
  // not known (what such a tensor holds cannot be checked: whoever needs it has to refuse it).
  std::span<const std::byte> data;

  std::uint64_t rows() const;       // product of dims[1..]
  std::uint64_t row_bytes() const;  // 0 for a type that is not known
};

// Writes the `count` values of consecutive blocks at `data` (any alignment) as floats. The type is
// known and count a multiple of its block. Thread-safe; the result does not depend on how a tensor
// is cut into calls.
void dequantize(TensorType type, const std::byte* data, std::size_t count, float* out);

class File {
 public:
  // io_error if it cannot be read or is no regular file; invalid_argument (one line that names the
  // path, what is wrong and where) if it is not a GGUF file, is truncated or malformed. Files
  // without tensors (vocabularies) are fine. Everything else is const and thread-safe.
  static Result<std::unique_ptr<File>> open(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const;
  std::uint64_t size() const;
  // All bytes of the file, for digests.
  std::span<const std::byte> bytes() const;
  const FileIdentity& identity() const;

  // Metadata. Integers of any width are accepted where they fit; nullopt if absent or of another
  // kind.
  bool has(std::string_view key) const;
  std::optional<std::uint64_t> unsigned_integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  // Arrays: empty if absent or of another kind. Views live as long as the file.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::uint64_t> unsigned_integers(std::string_view key) const;

  const Tensor* tensor(std::string_view name) const;
  std::span<const Tensor> tensors() const;

 private:
  struct State;
  explicit File(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace terrace::gguf
