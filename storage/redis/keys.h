// The names of values at the server: `terrace:<format>:<space hex>:<key hex>`.
#pragma once

#include <string>

#include "core/block_key.h"
#include "core/record.h"

namespace terrace::storage::redis {

class KeyNames {
 public:
  explicit KeyNames(const std::string& prefix)
      : prefix_(prefix + ":" + std::to_string(record_version) + ":") {}

  std::string of(const BlockKey& space, const BlockKey& key) const {
    std::string name;
    name.reserve(prefix_.size() + 4 * sizeof(Digest) + 1);
    name += prefix_;
    name += space.hex();
    name += ':';
    name += key.hex();
    return name;
  }

  // A name that no block has, to ask for.
  std::string probe(unsigned number) const { return prefix_ + "probe:" + std::to_string(number); }

 private:
  const std::string prefix_;
};

}  // namespace terrace::storage::redis
