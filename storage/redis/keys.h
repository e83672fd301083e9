// The names of values at the server: `terrace:<format>:<space hex>:<key hex>`.
#pragma once

#include <string>
#include <utility>

#include "core/block_key.h"
#include "core/record.h"

namespace terrace::storage::redis {

// Of the blocks of one space.
class SpaceNames {
 public:
  explicit SpaceNames(std::string prefix) : prefix_(std::move(prefix)) {}

  std::string of(const BlockKey& key) const { return prefix_ + key.hex(); }
  // The same into `name`, whose memory is used again.
  void write(const BlockKey& key, std::string& name) const {
    name = prefix_;
    name += key.hex();
  }

 private:
  const std::string prefix_;
};

class KeyNames {
 public:
  explicit KeyNames(const std::string& prefix)
      : prefix_(prefix + ":" + std::to_string(record_version) + ":") {}

  SpaceNames in(const BlockKey& space) const { return SpaceNames(prefix_ + space.hex() + ":"); }
  std::string of(const BlockKey& space, const BlockKey& key) const { return in(space).of(key); }

  // A name that no block has, to ask for.
  std::string probe(unsigned number) const { return prefix_ + "probe:" + std::to_string(number); }

 private:
  const std::string prefix_;
};

}  // namespace terrace::storage::redis
