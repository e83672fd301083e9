// Why a block that a worker wanted had to be computed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace terrace::storage {

enum class MissReason : std::uint8_t {
  unseen,   // not known, as far as is remembered
  evicted,  // its last copy made room for others, here or at Redis
  corrupt,  // its copy did not verify
  failed,   // it could not be read or copied, or Redis did not answer in time
  dropped,  // an operator dropped its space or evicted it
  pending,  // another session was computing it
  slower,   // computing it is faster than loading it
  no_room,  // the device tier had no slot for it
  late,     // Redis had it and did not bring it in time
  expired,  // it was older than its space allows
  behind,   // it is there, but a block before it was not had
};
constexpr std::array<const char*, 11> miss_reason_names = {
    "unseen", "evicted", "corrupt", "failed",  "dropped", "pending",
    "slower", "no_room", "late",    "expired", "behind"};
constexpr std::size_t miss_reasons = miss_reason_names.size();

}  // namespace terrace::storage
