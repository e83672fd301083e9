// The orders of eviction that there are.
#pragma once

namespace terrace::storage {

enum class EvictionOrder {
  lru,          // least recently used first
  reuse_index,  // least worth keeping first, learned from what is used again and when
};

}  // namespace terrace::storage
