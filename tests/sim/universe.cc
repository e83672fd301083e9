#include "tests/sim/universe.h"

#include <algorithm>

#include "core/bytes.h"
#include "core/checksum.h"
#include "storage/arena/slab_arena.h"

namespace terrace::sim {

namespace {

constexpr std::size_t max_depth = 8;
// Small payloads: slots are whole pages all the same. Some do not fill their page, one needs two
// and one three.
constexpr std::uint64_t block_bytes[] = {256, 4096, 4160, 320, 8256};
constexpr std::uint32_t block_tokens[] = {4, 2, 8, 4, 2};

std::vector<std::byte> contents_of(const BlockKey& key, std::uint64_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>(key.bytes[i % key.bytes.size()] + i / key.bytes.size());
  return made;
}

}  // namespace

Universe::Universe(Random& random, std::size_t spaces, std::size_t blocks) {
  const std::size_t first_size = random.pick(std::size(block_bytes));
  for (std::size_t i = 0; i < spaces; ++i) {
    const std::size_t size = (first_size + i) % std::size(block_bytes);
    SpaceOfNodes space;
    space.descriptor.model_digest.fill(static_cast<std::uint8_t>(i + 1));
    space.descriptor.numerics_id = "simulated";
    space.descriptor.kv_dtype = "bf16";
    space.descriptor.layout_id = "simulated";
    space.descriptor.block_tokens = block_tokens[size];
    space.descriptor.block_bytes = block_bytes[size];
    constexpr const char* tenants[] = {"", "a", "b", "a"};
    space.descriptor.tenant = tenants[i % std::size(tenants)];
    space.digest = space.descriptor.digest();
    space.slot_bytes = round_up(block_bytes[size], storage::slot_alignment_bytes);
    spaces_.push_back(std::move(space));
  }
  nodes_.reserve(blocks);
  for (std::size_t i = 0; i < blocks; ++i)
    add_node(random, static_cast<std::uint32_t>(random.pick(spaces)));
}

void Universe::add_node(Random& random, std::uint32_t space_index) {
  SpaceOfNodes& space = spaces_[space_index];
  Node node;
  node.space = space_index;
  if (!space.nodes.empty() && !random.chance(0.12)) {
    // Mostly onwards from the newest: long prefixes, with branches here and there.
    node.parent =
        random.chance(0.7) ? space.nodes.back() : space.nodes[random.pick(space.nodes.size())];
    if (nodes_[node.parent].path.size() >= max_depth) node.parent = no_node;
  }
  node.parent_key = node.parent == no_node ? space.digest : nodes_[node.parent].key;
  const std::uint32_t count = space.descriptor.block_tokens;
  for (std::uint32_t i = 0; i < count; ++i)
    node.tokens.push_back(static_cast<Token>(random.pick(1000)));
  // Brothers share some leading tokens.
  for (const NodeId other : space.nodes) {
    if (nodes_[other].parent != node.parent || !random.chance(0.5)) continue;
    std::copy_n(nodes_[other].tokens.begin(), random.pick(count), node.tokens.begin());
    break;
  }
  node.key = derive_block_key(node.parent_key, node.tokens);
  if (by_key_.contains(node.key)) return;
  node.contents = contents_of(node.key, space.descriptor.block_bytes);
  node.checksum = payload_checksum(node.contents);
  const auto id = static_cast<NodeId>(nodes_.size());
  if (node.parent != no_node) {
    const Node& parent = nodes_[node.parent];
    node.path = parent.path;
    node.path_keys = parent.path_keys;
    node.path_tokens = parent.path_tokens;
  }
  node.path.push_back(id);
  node.path_keys.push_back(node.key);
  node.path_tokens.insert(node.path_tokens.end(), node.tokens.begin(), node.tokens.end());
  by_key_.emplace(node.key, id);
  space.nodes.push_back(id);
  nodes_.push_back(std::move(node));
}

NodeId Universe::find(const BlockKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? no_node : found->second;
}

}  // namespace terrace::sim
