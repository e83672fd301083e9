#include "inference/gguf/container.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>

#include "core/bytes.h"
#include "inference/gguf/cursor.h"

namespace terrace::gguf {
namespace {

constexpr std::uint32_t magic = 0x46554747;  // "GGUF"
constexpr std::uint32_t oldest_version = 2, newest_version = 3;
// An empty name, no dimensions, type and offset; an empty key, type and one byte.
constexpr std::size_t min_tensor_entry_bytes = 8 + 4 + 4 + 8, min_metadata_entry_bytes = 8 + 4 + 1;

Status malformed(std::string message) {
  return Status(StatusCode::invalid_argument, std::move(message));
}

struct Header {
  std::uint64_t tensors = 0, metadata_entries = 0;
};

Result<Header> read_header(Cursor& cursor) {
  std::uint32_t found_magic = 0, version = 0;
  if (!cursor.read(found_magic) || found_magic != magic) {
    return error(malformed("is not a GGUF file"));
  }
  if (!cursor.read(version)) return error(malformed("header is cut short"));
  if (version < oldest_version || version > newest_version) {
    // A swapped version is how big-endian files are told.
    const bool swapped = version != 0 && (version & 0xffff) == 0;
    return error(malformed(swapped ? "is a big-endian GGUF file, which is not supported"
                                   : "GGUF version " + std::to_string(version) +
                                         " is not supported (2 and 3 are)"));
  }
  Header header;
  if (!cursor.read(header.tensors) || !cursor.read(header.metadata_entries)) {
    return error(malformed("header is cut short"));
  }
  // Before anything is reserved for them.
  if (header.metadata_entries > cursor.remaining() / min_metadata_entry_bytes) {
    return error(malformed(std::to_string(header.metadata_entries) +
                           " metadata entries do not fit in the file"));
  }
  if (header.tensors > cursor.remaining() / min_tensor_entry_bytes) {
    return error(malformed(std::to_string(header.tensors) + " tensors do not fit in the file"));
  }
  return header;
}

Result<std::uint64_t> read_alignment(const Metadata& metadata) {
  constexpr std::string_view key = "general.alignment";
  if (!metadata.has(key)) return default_alignment;
  const auto alignment = metadata.unsigned_integer(key);
  if (!alignment || !std::has_single_bit(*alignment) || *alignment < min_alignment ||
      *alignment > std::numeric_limits<std::uint32_t>::max()) {
    return error(malformed("key 'general.alignment' is not a power of two from " +
                           std::to_string(min_alignment) + " on"));
  }
  return *alignment;
}

// A tensor and where it says that its data starts, counted from the start of all data.
struct TensorEntry {
  std::string_view name;
  Tensor tensor;
  std::uint64_t offset = 0;
};

Result<TensorEntry> read_tensor_entry(Cursor& cursor, std::uint64_t index) {
  const std::size_t start = cursor.offset();
  TensorEntry entry;
  if (!cursor.read_string(entry.name, max_tensor_name_bytes)) {
    return error(malformed("name of tensor " + std::to_string(index) + " is cut short or too long" +
                           at_offset(start)));
  }
  const auto reject = [&](const std::string& what) {
    return error(malformed("tensor " + quoted(entry.name) + " " + what + at_offset(start)));
  };
  std::uint32_t dimensions = 0, type = 0;
  if (!cursor.read(dimensions)) return reject("is cut short");
  if (dimensions == 0 || dimensions > max_dimensions) {
    return reject("has " + std::to_string(dimensions) + " dimensions, not 1 to 4");
  }
  entry.tensor.name = entry.name;
  entry.tensor.dims.resize(dimensions);
  for (std::uint64_t& dim : entry.tensor.dims) {
    if (!cursor.read(dim)) return reject("is cut short");
  }
  if (!cursor.read(type) || !cursor.read(entry.offset)) return reject("is cut short");
  entry.tensor.type = static_cast<TensorType>(type);

  std::uint64_t values = 1;
  for (const std::uint64_t dim : entry.tensor.dims) {
    if (dim == 0) return reject("has a dimension of 0");
    if (__builtin_mul_overflow(values, dim, &values)) return reject("has too many values");
  }
  return entry;
}

// Fills entry.tensor.data, for which [data_start, end of file) is there.
Status place_tensor(std::span<const std::byte> file, std::uint64_t data_start,
                    std::uint64_t alignment, TensorEntry& entry) {
  Tensor& tensor = entry.tensor;
  const auto reject = [&](const std::string& what) {
    return malformed("tensor " + quoted(entry.name) + " " + what);
  };
  if (entry.offset % alignment != 0) {
    return reject("starts at " + std::to_string(entry.offset) +
                  ", which is not a multiple of the alignment " + std::to_string(alignment));
  }
  const BlockShape block = block_shape(tensor.type);
  if (block.values != 0 && tensor.dims[0] % block.values != 0) {
    return reject("has rows of " + std::to_string(tensor.dims[0]) +
                  " values, which is not a multiple of the " + std::to_string(block.values) +
                  " in a block of " + to_string(tensor.type));
  }
  std::uint64_t start = 0, bytes = 0, end = 0;
  // The product of the dimensions did not overflow; blocks hold up to 4 bytes a value.
  if (__builtin_mul_overflow(tensor.dims[0] / std::max(block.values, 1u) * tensor.rows(),
                             std::uint64_t{block.bytes}, &bytes) ||
      __builtin_add_overflow(data_start, entry.offset, &start) ||
      __builtin_add_overflow(start, bytes, &end) || end > file.size()) {
    return reject("goes past the end of the file (data at offset " + std::to_string(data_start) +
                  " + " + std::to_string(entry.offset) + ", file of " +
                  std::to_string(file.size()) + " bytes)");
  }
  if (block.values != 0) tensor.data = file.subspan(start, bytes);
  return {};
}

}  // namespace

Result<Container> read_container(std::span<const std::byte> file) {
  Cursor cursor(file);
  const Result<Header> header = read_header(cursor);
  if (!header) return error(header.error());
  Result<Metadata> metadata = Metadata::read(cursor, header->metadata_entries);
  if (!metadata) return error(metadata.error());
  const Result<std::uint64_t> alignment = read_alignment(*metadata);
  if (!alignment) return error(alignment.error());

  Container container{std::move(*metadata), {}, {}};
  std::vector<TensorEntry> entries;
  for (std::uint64_t i = 0; i < header->tensors; ++i) {
    const std::size_t start = cursor.offset();
    Result<TensorEntry> entry = read_tensor_entry(cursor, i);
    if (!entry) return error(entry.error());
    if (!container.tensor_by_name.emplace(entry->name, i).second) {
      return error(
          malformed("tensor " + quoted(entry->name) + " is there twice" + at_offset(start)));
    }
    entries.push_back(std::move(*entry));
  }

  const std::uint64_t data_start = round_up(cursor.offset(), *alignment);
  container.tensors.reserve(entries.size());
  for (TensorEntry& entry : entries) {
    if (Status status = place_tensor(file, data_start, *alignment, entry); !status.ok()) {
      return error(status);
    }
    container.tensors.push_back(std::move(entry.tensor));
  }
  return container;
}

}  // namespace terrace::gguf
