// Writes GGUF files, well-formed ones and those that must be refused: nothing is checked here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/bytes.h"
#include "core/status.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::test_support {

// The number of a C++ type in the file.
template <typename T>
constexpr std::uint32_t gguf_value_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return 0;
  if constexpr (std::is_same_v<T, std::int8_t>) return 1;
  if constexpr (std::is_same_v<T, std::uint16_t>) return 2;
  if constexpr (std::is_same_v<T, std::int16_t>) return 3;
  if constexpr (std::is_same_v<T, std::uint32_t>) return 4;
  if constexpr (std::is_same_v<T, std::int32_t>) return 5;
  if constexpr (std::is_same_v<T, float>) return 6;
  if constexpr (std::is_same_v<T, bool>) return 7;
  if constexpr (std::is_same_v<T, std::string>) return 8;
  if constexpr (std::is_same_v<T, std::uint64_t>) return 10;
  if constexpr (std::is_same_v<T, std::int64_t>) return 11;
  if constexpr (std::is_same_v<T, double>) return 12;
}

// Bytes appended one after the other, as the format has them.
class ByteSink {
 public:
  template <typename T>
  ByteSink& put(const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      put<std::uint64_t>(value.size());
      bytes_ += value;
    } else {
      static_assert(std::is_arithmetic_v<T>);
      const std::size_t at = bytes_.size();
      bytes_.resize(at + sizeof(T));
      store_le(bytes_.data() + at, value);
    }
    return *this;
  }
  ByteSink& append(std::string_view raw) {
    bytes_ += raw;
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class GgufWriter {
 public:
  // What the header says; counts that are not set are those of what was added.
  std::string magic = "GGUF";
  std::uint32_t version = 3;
  std::uint64_t extra_metadata = 0, extra_tensors = 0;  // claimed but not there
  // Where tensors are placed; the key general.alignment is the caller's to add.
  std::uint64_t alignment = 32;

  template <typename T>
  void add(const std::string& key, const std::type_identity_t<T>& value) {
    add_raw(key, gguf_value_type<T>(), ByteSink().put<T>(value).bytes());
  }
  template <typename T>
  void add_array(const std::string& key, const std::vector<T>& values) {
    ByteSink sink;
    sink.put<std::uint32_t>(gguf_value_type<T>()).template put<std::uint64_t>(values.size());
    for (const T& value : values) sink.put<T>(value);
    add_raw(key, 9, sink.bytes());
  }
  // Any type number with any bytes of a value.
  void add_raw(const std::string& key, std::uint32_t type, std::string_view value);

  // Data is kept until it is written, and placed behind that of the tensor before, aligned.
  void add_tensor(const std::string& name, gguf::TensorType type,
                  const std::vector<std::uint64_t>& dims, std::string data);
  // An entry that claims data wherever it likes.
  void add_raw_tensor(const std::string& name, std::uint32_t type,
                      const std::vector<std::uint64_t>& dims, std::uint64_t offset);

  // All that comes before the data, without the padding up to it.
  std::string header() const;
  std::string bytes() const;
  Status write(const std::string& path) const;

 private:
  std::string data_padding(std::size_t written) const;

  std::uint64_t metadata_count_ = 0, tensor_count_ = 0;
  ByteSink metadata_, tensor_table_;
  std::vector<std::string> data_;
  std::uint64_t data_bytes_ = 0;
};

// Replaces the file's content.
Status write_file(const std::string& path, std::string_view bytes);

}  // namespace terrace::test_support
