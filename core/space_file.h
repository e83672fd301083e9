// A space on disk: one small file a space, so that the spaces outlive a lost index.
// docs/disk_format.md draws it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/space.h"
#include "core/status.h"

namespace terrace {

constexpr std::uint32_t space_file_version = 1;

std::vector<std::byte> encode_space(const SpaceDescriptor& space);

// corruption if it does not verify, failed_precondition for another version.
Result<SpaceDescriptor> decode_space(std::string_view contents);

// "<digest in hexadecimal>.space"
std::string space_file_name(const SpaceDescriptor& space);

}  // namespace terrace
