// What became of a block that a client put into the cache.
#pragma once

#include <cstdint>

namespace terrace {

enum class PutOutcome : std::uint8_t {
  stored,       // matchable from now on
  present,      // it was there already, and was not copied
  no_room,      // every slot is held, or the daemon is draining
  refused,      // what arrived does not agree with the checksum, or could not be copied
  unreachable,  // no match can reach it: a block before it is not there
};
constexpr std::uint8_t put_outcomes = 5;

}  // namespace terrace
