// The names of values at the server: `terrace:<format>:<space hex>:<key hex>`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/block_key.h"
#include "core/bytes.h"
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
  // The key of a name that is one of these.
  std::optional<BlockKey> key_of(std::string_view name) const {
    BlockKey key;
    if (!name.starts_with(prefix_) || !from_hex(name.substr(prefix_.size()), key.bytes))
      return std::nullopt;
    return key;
  }
  // What all of them match, as SCAN takes it.
  std::string pattern() const {
    std::string pattern;
    for (const char c : prefix_) {
      if (std::string_view("*?[]\\").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
    return pattern + "*";
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
