// Numbers that name spaces, sessions, leases and slots.
#pragma once

#include <cstdint>

namespace terrace::storage {

using SpaceId = std::uint32_t;
using TenantId = std::uint16_t;  // of a tenant with a quota; 0: of all others
using SessionId = std::uint64_t;
using LeaseId = std::uint64_t;     // chosen by the client, unique within its session
using SlotOffset = std::uint64_t;  // of a slot in the device arena

}  // namespace terrace::storage
