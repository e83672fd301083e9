#include "inference/gguf/metadata.h"

#include <string>

namespace terrace::gguf {
namespace {

// 0 for strings, arrays and unknown types.
std::size_t fixed_bytes(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::string:
    case ValueType::array:
      break;
  }
  return 0;
}

std::string_view string_at(const std::byte* value) {
  return {reinterpret_cast<const char*>(value + 8),
          static_cast<std::size_t>(load_le<std::uint64_t>(value))};
}

template <typename T>
std::optional<std::uint64_t> non_negative(const std::byte* value) {
  const T integer = load_le<T>(value);
  if (integer < 0) return std::nullopt;
  return static_cast<std::uint64_t>(integer);
}

std::optional<std::uint64_t> unsigned_at(ValueType type, const std::byte* value) {
  switch (type) {
    case ValueType::u8:
      return load_le<std::uint8_t>(value);
    case ValueType::u16:
      return load_le<std::uint16_t>(value);
    case ValueType::u32:
      return load_le<std::uint32_t>(value);
    case ValueType::u64:
      return load_le<std::uint64_t>(value);
    case ValueType::i8:
      return non_negative<std::int8_t>(value);
    case ValueType::i16:
      return non_negative<std::int16_t>(value);
    case ValueType::i32:
      return non_negative<std::int32_t>(value);
    case ValueType::i64:
      return non_negative<std::int64_t>(value);
    default:
      return std::nullopt;
  }
}

std::optional<double> number_at(ValueType type, const std::byte* value) {
  switch (type) {
    case ValueType::f32:
      return load_le<float>(value);
    case ValueType::f64:
      return load_le<double>(value);
    case ValueType::i8:
      return load_le<std::int8_t>(value);
    case ValueType::i16:
      return load_le<std::int16_t>(value);
    case ValueType::i32:
      return load_le<std::int32_t>(value);
    case ValueType::i64:
      return static_cast<double>(load_le<std::int64_t>(value));
    default:
      break;
  }
  const auto integer = unsigned_at(type, value);
  if (!integer) return std::nullopt;
  return static_cast<double>(*integer);
}

Status malformed(std::string message, std::uint64_t offset) {
  return Status(StatusCode::invalid_argument, std::move(message) + at_offset(offset));
}

// Moves the cursor past one string of a value.
Status skip_string(Cursor& cursor) {
  const std::size_t start = cursor.offset();
  std::uint64_t length = 0;
  if (!cursor.read(length)) return malformed("string is cut short", start);
  if (length > Metadata::max_value_bytes) {
    return malformed("string of " + std::to_string(length) + " bytes is over the limit of 1 GiB",
                     start);
  }
  if (!cursor.skip(length)) {
    return malformed("string of " + std::to_string(length) + " bytes goes past the end of the file",
                     start);
  }
  return {};
}

}  // namespace

Result<Metadata::Entry> Metadata::read_value(Cursor& cursor) {
  const std::size_t start = cursor.offset();
  std::uint32_t type = 0;
  if (!cursor.read(type)) return error(malformed("value is cut short", start));
  Entry entry{static_cast<ValueType>(type), false, 1, nullptr};
  if (entry.type == ValueType::array) {
    if (!cursor.read(type) || !cursor.read(entry.count)) {
      return error(malformed("array is cut short", start));
    }
    entry.type = static_cast<ValueType>(type);
    entry.is_array = true;
    if (entry.type == ValueType::array) {
      return error(malformed("arrays of arrays are not supported", start));
    }
  }
  const bool strings = entry.type == ValueType::string;
  // A string takes at least the 8 bytes of its length.
  const std::size_t least_bytes = strings ? 8 : fixed_bytes(entry.type);
  if (least_bytes == 0) {
    return error(malformed("value type " + std::to_string(type) + " is not known", start));
  }
  entry.values = cursor.position();
  if (entry.is_array && entry.count > max_value_bytes / least_bytes) {
    return error(malformed(
        "array of " + std::to_string(entry.count) + " elements is over the limit of 1 GiB", start));
  }
  if (entry.count * least_bytes > cursor.remaining()) {
    return error(malformed(entry.is_array ? "array of " + std::to_string(entry.count) +
                                                " elements goes past the end of the file"
                                          : "value is cut short",
                           start));
  }
  if (!strings) {
    cursor.skip(entry.count * least_bytes);
    return entry;
  }
  for (std::uint64_t i = 0; i < entry.count; ++i) {
    if (Status status = skip_string(cursor); !status.ok()) {
      return error(entry.is_array ? status.with_context("element " + std::to_string(i)) : status);
    }
    if (entry.is_array && cursor.offset() - start > max_value_bytes) {
      return error(malformed("array is over the limit of 1 GiB", start));
    }
  }
  return entry;
}

Result<Metadata> Metadata::read(Cursor& cursor, std::uint64_t count) {
  Metadata metadata;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t start = cursor.offset();
    std::string_view key;
    if (!cursor.read_string(key, max_key_bytes)) {
      return error(malformed("metadata key " + std::to_string(i) + " of " + std::to_string(count) +
                                 " is cut short or too long",
                             start));
    }
    Result<Entry> entry = read_value(cursor);
    if (!entry) return error(entry.error().with_context("key " + quoted(key)));
    if (!metadata.entries_.emplace(key, *entry).second) {
      return error(malformed("key " + quoted(key) + " is there twice", start));
    }
  }
  return metadata;
}

template <typename T>
std::vector<T> Metadata::elements(const Entry& entry,
                                  std::optional<T> (*element_at)(ValueType, const std::byte*)) {
  std::vector<T> all;
  const std::size_t bytes = fixed_bytes(entry.type);
  if (bytes == 0) return all;
  all.reserve(entry.count);
  for (std::uint64_t i = 0; i < entry.count; ++i) {
    const std::optional<T> element = element_at(entry.type, entry.values + i * bytes);
    if (!element) return {};  // of another kind, or negative where that does not fit
    all.push_back(*element);
  }
  return all;
}

const Metadata::Entry* Metadata::find(std::string_view key, bool is_array) const {
  const auto found = entries_.find(key);
  if (found == entries_.end() || found->second.is_array != is_array) return nullptr;
  return &found->second;
}

std::optional<std::uint64_t> Metadata::unsigned_integer(std::string_view key) const {
  const Entry* entry = find(key, false);
  if (entry == nullptr) return std::nullopt;
  return unsigned_at(entry->type, entry->values);
}

std::optional<double> Metadata::number(std::string_view key) const {
  const Entry* entry = find(key, false);
  if (entry == nullptr) return std::nullopt;
  return number_at(entry->type, entry->values);
}

std::optional<bool> Metadata::boolean(std::string_view key) const {
  const Entry* entry = find(key, false);
  if (entry == nullptr || entry->type != ValueType::boolean) return std::nullopt;
  return load_le<std::uint8_t>(entry->values) != 0;
}

std::optional<std::string_view> Metadata::text(std::string_view key) const {
  const Entry* entry = find(key, false);
  if (entry == nullptr || entry->type != ValueType::string) return std::nullopt;
  return string_at(entry->values);
}

std::vector<std::string_view> Metadata::texts(std::string_view key) const {
  std::vector<std::string_view> all;
  const Entry* entry = find(key, true);
  if (entry == nullptr || entry->type != ValueType::string) return all;
  all.reserve(entry->count);
  const std::byte* value = entry->values;
  for (std::uint64_t i = 0; i < entry->count; ++i) {
    all.push_back(string_at(value));
    value += 8 + all.back().size();
  }
  return all;
}

std::vector<double> Metadata::numbers(std::string_view key) const {
  const Entry* entry = find(key, true);
  return entry == nullptr ? std::vector<double>{} : elements<double>(*entry, number_at);
}

std::vector<std::uint64_t> Metadata::unsigned_integers(std::string_view key) const {
  const Entry* entry = find(key, true);
  return entry == nullptr ? std::vector<std::uint64_t>{}
                          : elements<std::uint64_t>(*entry, unsigned_at);
}

}  // namespace terrace::gguf
