// The key-value pairs of a GGUF file. Values stay in the mapping: a vocabulary of 128k strings
// costs one walk to check it and no copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/status.h"
#include "inference/gguf/cursor.h"

namespace terrace::gguf {

// As numbered in the file.
enum class ValueType : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

class Metadata {
 public:
  static constexpr std::uint64_t max_key_bytes = 65535;       // as the format says
  static constexpr std::uint64_t max_value_bytes = 1u << 30;  // of a string or an array

  // Reads `count` pairs at the cursor, which is moved past them. invalid_argument that names the
  // key and the offset if one is malformed. The bytes must outlive the result.
  static Result<Metadata> read(Cursor& cursor, std::uint64_t count);

  // See File.
  bool has(std::string_view key) const { return entries_.contains(key); }
  std::optional<std::uint64_t> unsigned_integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  std::vector<std::uint64_t> unsigned_integers(std::string_view key) const;

 private:
  struct Entry {
    ValueType type;  // of the elements where it is an array
    bool is_array;
    std::uint64_t count;      // elements; 1 where it is no array
    const std::byte* values;  // checked: `count` values of `type` lie here
  };

  static Result<Entry> read_value(Cursor& cursor);
  template <typename T>
  static std::vector<T> elements(const Entry& entry,
                                 std::optional<T> (*element_at)(ValueType, const std::byte*));
  const Entry* find(std::string_view key, bool is_array) const;

  std::unordered_map<std::string_view, Entry> entries_;
};

}  // namespace terrace::gguf
