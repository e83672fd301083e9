#include "storage/catalog/catalog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace terrace::storage {
namespace {

BlockKey random_key(std::mt19937_64& random) {
  BlockKey key;
  for (auto& byte : key.bytes) byte = static_cast<std::uint8_t>(random());
  return key;
}

TEST(KeyIndex, AgreesWithAMap) {
  std::mt19937_64 random(7);
  KeyIndex index;
  std::map<BlockKey, std::unique_ptr<Block>> model;
  for (int i = 0; i < 20000; ++i) {
    auto block = std::make_unique<Block>();
    block->key = random_key(random);
    // Some keys that differ only past what the index sorts by.
    if (i % 10 == 0) std::fill_n(block->key.bytes.begin(), 20, std::uint8_t{0x5a});
    if (model.contains(block->key)) continue;
    index.insert(block.get());
    model.emplace(block->key, std::move(block));
    if (i % 3 == 0) {
      const auto victim = model.lower_bound(random_key(random));
      if (victim == model.end()) continue;
      index.erase(victim->second.get());
      model.erase(victim);
    }
  }
  EXPECT_EQ(index.size(), model.size());
  std::vector<BlockKey> keys;
  std::vector<Block*> found;
  for (const auto& [key, block] : model) {
    keys.push_back(key);
    ASSERT_EQ(index.find(key), block.get());
  }
  keys.push_back(random_key(random));
  index.find(keys, found);
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) ASSERT_EQ(found[i], model.at(keys[i]).get());
  EXPECT_EQ(found.back(), nullptr);

  const BlockKey from = random_key(random);
  auto expected = model.lower_bound(from);
  index.visit_from(from, [&](const Block& block) {
    EXPECT_EQ(block.key, expected->first);
    ++expected;
    return true;
  });
  EXPECT_EQ(expected, model.end());
}

SpaceDescriptor space(const std::string& tenant) {
  SpaceDescriptor descriptor;
  descriptor.kv_dtype = "bf16";
  descriptor.layout_id = "test";
  descriptor.block_tokens = 4;
  descriptor.block_bytes = 5000 / 64 * 64;
  descriptor.tenant = tenant;
  return descriptor;
}

TEST(Catalog, GivesOneEntryForOneSpaceAndOneClassForOneSlotSize) {
  Catalog catalog;
  SpaceEntry* a = *catalog.open_space(space("a"));
  EXPECT_EQ(*catalog.open_space(space("a")), a);
  SpaceEntry* b = *catalog.open_space(space("b"));
  EXPECT_NE(a, b);
  EXPECT_EQ(a->size_class, b->size_class);
  EXPECT_EQ(a->slot_bytes, 8192u);
  SpaceDescriptor bad = space("c");
  bad.block_tokens = 3;
  EXPECT_EQ(catalog.open_space(bad).error().code(), StatusCode::invalid_argument);
}

TEST(Catalog, FindsTheChildThatSharesMostTokensAmongMany) {
  Catalog catalog;
  SpaceEntry& entry = **catalog.open_space(space("a"));
  std::mt19937 random(3);
  Slot slot{.state = SlotState::copy};
  std::vector<Block*> blocks;
  for (int i = 0; i < 2000; ++i) {
    std::vector<Token> tokens;
    for (int at = 0; at < 4; ++at) tokens.push_back(static_cast<Token>(random() % 9) - 4);
    const BlockKey key = derive_block_key(entry.digest, tokens);
    if (catalog.find(key)) continue;
    Block& block = catalog.insert(entry, nullptr, key, tokens);
    block.device = &slot;
    blocks.push_back(&block);
  }
  for (int i = 0; i < 2000; ++i) {
    std::vector<Token> wanted;
    const int length = 1 + static_cast<int>(random() % 4);
    for (int at = 0; at < length; ++at) wanted.push_back(static_cast<Token>(random() % 11) - 5);
    std::uint32_t most = 0;
    for (const Block* block : blocks) {
      std::uint32_t shared = 0;
      while (shared < wanted.size() && block->tokens[shared] == wanted[shared]) ++shared;
      most = std::max(most, shared);
    }
    const auto [best, shared] = catalog.best_partial(entry, nullptr, wanted);
    ASSERT_EQ(shared, most);
    ASSERT_EQ(best != nullptr, most > 0);
    if (best) {
      ASSERT_TRUE(std::equal(wanted.begin(), wanted.begin() + shared, best->tokens.begin()));
    }
  }
  for (Block* block : blocks) block->device = nullptr;
}

TEST(Catalog, RefusesBlocksOfTooManySizes) {
  Catalog catalog;
  SpaceDescriptor space;
  space.numerics_id = "n";
  space.kv_dtype = "bf16";
  space.layout_id = "l";
  space.block_tokens = 4;
  for (std::size_t i = 1; i <= Catalog::max_size_classes; ++i) {
    space.block_bytes = i * 4096;
    ASSERT_TRUE(catalog.open_space(space));
  }
  space.block_bytes += 4096;
  const auto refused = catalog.open_space(space);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::resource_exhausted);
  space.block_bytes = 4096;
  space.block_tokens = 8;  // another space, a known size
  EXPECT_TRUE(catalog.open_space(space));
}

}  // namespace
}  // namespace terrace::storage
