// What the reuse index knows of a block, and the classes and ages by which it counts.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace terrace::storage {

// Time is counted in requests.
using RequestNumber = std::uint32_t;

// Of a block that was known before its uses were counted, such as after a restart: older than
// anything that is remembered.
constexpr RequestNumber unknown_request = 0;

// Ages from here on are not told apart. A power of two.
constexpr std::uint32_t remembered_requests = 8192;

// The last use of a block.
struct ReuseState {
  RequestNumber request = unknown_request;
  std::uint8_t uses = 0;  // how often it was used, at most max_uses
  bool last = false;      // the request's last block
};
constexpr std::uint8_t max_uses = 255;

// A block's class: how often it was used {1, 2, 3, 4-6, 7-16, 17-254, more}, whether it ended its
// request, and the bit length of the number of blocks that were new in that request.
constexpr unsigned use_groups = 7;
constexpr unsigned new_sizes = 9;
constexpr unsigned reuse_classes = use_groups * 2 * new_sizes;

constexpr std::array<std::uint8_t, max_uses + 1> group_of_uses = [] {
  constexpr std::array<std::uint8_t, use_groups - 1> up_to{1, 2, 3, 6, 16, max_uses - 1};
  std::array<std::uint8_t, max_uses + 1> groups{};
  std::uint8_t group = 0;
  for (unsigned uses = 0; uses <= max_uses; ++uses) {
    while (group < up_to.size() && uses > up_to[group]) ++group;
    groups[uses] = group;
  }
  return groups;
}();
constexpr unsigned use_group(std::uint8_t uses) { return group_of_uses[uses]; }
constexpr unsigned new_size(std::uint32_t new_blocks) {
  return std::min(static_cast<unsigned>(std::bit_width(new_blocks)), new_sizes - 1);
}
constexpr unsigned class_of(unsigned group, bool last, unsigned size) {
  return (group * 2 + last) * new_sizes + size;
}

// Bucket b holds the ages from age_edges[b] to below age_edges[b + 1]: floor(2^(i/2)) without
// repetitions. The first one holds age 0 as well.
constexpr std::array<std::uint32_t, 25> age_edges{1,    2,    4,    5,    8,
                                                  11,   16,   22,   32,   45,
                                                  64,   90,   128,  181,  256,
                                                  362,  512,  724,  1024, 1448,
                                                  2048, 2896, 4096, 5792, remembered_requests};
constexpr unsigned age_buckets = age_edges.size() - 1;

constexpr unsigned age_bucket(std::uint32_t age) {
  const auto above = std::upper_bound(age_edges.begin() + 1, age_edges.end() - 1, age);
  return static_cast<unsigned>(above - age_edges.begin()) - 1;
}

// A cell is a class at an age.
constexpr unsigned reuse_cells = reuse_classes * age_buckets;
constexpr unsigned cell_of(unsigned reuse_class, unsigned bucket) {
  return reuse_class * age_buckets + bucket;
}

}  // namespace terrace::storage
