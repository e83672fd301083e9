// The terraces, from the fastest to the slowest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace terrace {

enum class Tier : std::uint8_t { device, host, disk, redis };
constexpr std::size_t tier_count = 4;
constexpr std::array<Tier, tier_count> all_tiers = {Tier::device, Tier::host, Tier::disk,
                                                    Tier::redis};

constexpr const char* to_string(Tier tier) {
  constexpr std::array names = {"device", "host", "disk", "redis"};
  return names[static_cast<std::size_t>(tier)];
}

// What a match says of one block: the highest tier that has it, that somebody is computing it, or
// nothing.
enum class BlockState : std::uint8_t { absent, pending, device, host, disk, redis };

constexpr BlockState block_state(Tier tier) {
  return static_cast<BlockState>(static_cast<std::uint8_t>(tier) +
                                 static_cast<std::uint8_t>(BlockState::device));
}
constexpr bool is_present(BlockState state) { return state >= BlockState::device; }

}  // namespace terrace
