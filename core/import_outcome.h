// What became of a block that an operator's tool gives to the cache.
#pragma once

#include <cstdint>

namespace terrace {

enum class ImportOutcome : std::uint8_t {
  wanted,    // (more of) its bytes are
  imported,  // it is there from now on, durably where there is a disk tier
  there,     // it was there before
  no_room,   // now, or ever: the reason says
  refused,   // it is not what it says it is, or nothing it could follow is there
};
constexpr std::uint8_t import_outcomes = 5;

}  // namespace terrace
