// The container format: header, metadata, tensor table, data. Everything that is read here comes
// from a file that may have been made to break its reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"
#include "inference/gguf/metadata.h"

namespace terrace::gguf {

struct Container {
  Metadata metadata;
  std::vector<Tensor> tensors;
  std::unordered_map<std::string_view, std::size_t> tensor_by_name;  // index into tensors
};

constexpr std::uint32_t max_dimensions = 4;
constexpr std::uint64_t max_tensor_name_bytes = 63;
constexpr std::uint64_t default_alignment = 32, min_alignment = 8;  // of tensor data

// invalid_argument, in one line that names the key or tensor and the offset, if the bytes are not a
// well-formed GGUF file of version 2 or 3. Views in the result point into `file`.
Result<Container> read_container(std::span<const std::byte> file);

}  // namespace terrace::gguf
