// SpaceDescriptor to and from its message.
#pragma once

#include "core/space.h"
#include "core/status.h"
#include "protocol/terrace.capnp.h"

namespace terrace::protocol {

void write_descriptor(const terrace::SpaceDescriptor& from, SpaceDescriptor::Builder to);

// invalid_argument for a digest of a wrong size; the other fields are left to validate().
Result<terrace::SpaceDescriptor> read_descriptor(SpaceDescriptor::Reader from);

}  // namespace terrace::protocol
