// A reading position in untrusted bytes, and names out of them for messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/bytes.h"

namespace terrace::gguf {

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes, std::size_t offset = 0)
      : bytes_(bytes), offset_(offset) {}

  std::size_t offset() const { return offset_; }
  std::size_t remaining() const { return bytes_.size() - offset_; }
  const std::byte* position() const { return bytes_.data() + offset_; }

  // Each returns false, and stays where it is, if the bytes end before.
  template <typename T>
  bool read(T& value) {
    if (remaining() < sizeof(T)) return false;
    value = load_le<T>(position());
    offset_ += sizeof(T);
    return true;
  }
  bool skip(std::uint64_t count) {
    if (remaining() < count) return false;
    offset_ += count;
    return true;
  }
  // A GGUF string: u64 length, then the bytes.
  bool read_string(std::string_view& text, std::uint64_t max_length) {
    const std::size_t start = offset_;
    std::uint64_t length = 0;
    if (!read(length)) return false;
    const auto* first = reinterpret_cast<const char*>(position());
    if (length > max_length || !skip(length)) {
      offset_ = start;
      return false;
    }
    text = {first, static_cast<std::size_t>(length)};
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t offset_;
};

// A name from the file as it appears in a one-line message: quoted, cut, without control bytes.
std::string quoted(std::string_view name);
std::string at_offset(std::uint64_t offset);  // " at offset 24"

}  // namespace terrace::gguf
