// Every block that the clients of a simulation may ever compute: a few spaces, and in each a tree
// of prefixes. What a block's bytes are follows from its key, so that wrong bytes are seen.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/space.h"
#include "tests/sim/random.h"

namespace terrace::sim {

using NodeId = std::uint32_t;
constexpr NodeId no_node = UINT32_MAX;

// A block, with the whole prefix that leads to it.
struct Node {
  std::uint32_t space = 0;
  NodeId parent = no_node;
  std::vector<Token> tokens;
  BlockKey key, parent_key;
  std::vector<std::byte> contents;
  std::uint64_t checksum = 0;
  // From the first block to this one.
  std::vector<NodeId> path;
  std::vector<BlockKey> path_keys;
  std::vector<Token> path_tokens;
};

struct SpaceOfNodes {
  SpaceDescriptor descriptor;
  BlockKey digest;
  std::uint64_t slot_bytes = 0;
  std::vector<NodeId> nodes;
};

class Universe {
 public:
  // `blocks` of them in `spaces` spaces of different block sizes.
  Universe(Random& random, std::size_t spaces, std::size_t blocks);

  const Node& node(NodeId id) const { return nodes_[id]; }
  std::size_t size() const { return nodes_.size(); }
  const std::vector<SpaceOfNodes>& spaces() const { return spaces_; }
  // no_node if there is none.
  NodeId find(const BlockKey& key) const;

 private:
  void add_node(Random& random, std::uint32_t space);

  std::vector<SpaceOfNodes> spaces_;
  std::vector<Node> nodes_;
  std::unordered_map<BlockKey, NodeId> by_key_;
};

}  // namespace terrace::sim
