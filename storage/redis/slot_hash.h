// Which of a cluster's slots a key lies in.
#pragma once

#include <cstdint>
#include <string_view>

namespace terrace::storage::redis {

constexpr unsigned slot_count = 16384;

// CRC16 (XMODEM) of the key, or of what stands between its first pair of braces if that is not
// empty, modulo slot_count.
std::uint16_t slot_of(std::string_view key);

}  // namespace terrace::storage::redis
