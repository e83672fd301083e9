#include "storage/catalog/catalog.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <new>
#include <random>
#include <set>
#include <tuple>

#include "storage/policy/lru_policy.h"

namespace terrace::storage {
namespace {

BlockKey random_key(std::mt19937_64& random) {
  BlockKey key;
  for (auto& byte : key.bytes) byte = static_cast<std::uint8_t>(random());
  return key;
}

TEST(KeyIndex, AgreesWithAMap) {
  std::mt19937_64 random(7);
  Region region;
  Pool blocks(region, sizeof(Block));
  KeyIndex index(region);
  std::map<BlockKey, Block*> model;
  for (int i = 0; i < 20000; ++i) {
    auto* block = new (blocks.allocate()) Block;
    block->key = random_key(random);
    // Some keys that differ only past what the index sorts by.
    if (i % 10 == 0) std::fill_n(block->key.bytes.begin(), 20, std::uint8_t{0x5a});
    if (model.contains(block->key)) continue;
    index.insert(block);
    model.emplace(block->key, block);
    if (i % 3 == 0) {
      const auto victim = model.lower_bound(random_key(random));
      if (victim == model.end()) continue;
      index.erase(victim->second);
      model.erase(victim);
    }
  }
  EXPECT_EQ(index.size(), model.size());
  std::vector<BlockKey> keys;
  std::vector<Block*> found;
  for (const auto& [key, block] : model) {
    keys.push_back(key);
    ASSERT_EQ(index.find(key), block);
  }
  keys.push_back(random_key(random));
  index.find(keys, found);
  for (std::size_t i = 0; i + 1 < keys.size(); ++i) ASSERT_EQ(found[i], model.at(keys[i]));
  EXPECT_EQ(found.back(), nullptr);

  const BlockKey from = random_key(random);
  auto expected = model.lower_bound(from);
  index.visit_from(from, [&](const Block& block) {
    EXPECT_EQ(block.key, expected->first);
    ++expected;
    return true;
  });
  EXPECT_EQ(expected, model.end());

  for (const auto& [key, block] : model) index.erase(block);
  EXPECT_EQ(index.size(), 0u);
  index.find(keys, found);
  EXPECT_EQ(std::ranges::count(found, nullptr), std::ssize(found));
  EXPECT_LT(index.bytes(), std::size_t{128} << 10);  // it has shrunk
}

// More than a bucket holds have the same first bits: whoever looks for one finds it further on,
// also after others have gone.
TEST(KeyIndex, FindsKeysThatBeginAlike) {
  Region region;
  Pool blocks(region, sizeof(Block));
  KeyIndex index(region);
  std::mt19937_64 random(9);
  std::map<BlockKey, Block*> model;
  for (int i = 0; i < 300; ++i) {
    auto* block = new (blocks.allocate()) Block;
    block->key = random_key(random);
    block->key.bytes[0] = 0xff;  // the last shard
    block->key.bytes[1] = 0xff;
    block->key.bytes[2] = static_cast<std::uint8_t>(0xf0 | i % 4);
    index.insert(block);
    model.emplace(block->key, block);
  }
  while (!model.empty()) {
    for (const auto& [key, block] : model) ASSERT_EQ(index.find(key), block);
    ASSERT_EQ(index.find(random_key(random)), nullptr);
    std::vector<BlockKey> keys;
    std::vector<Block*> found;
    for (const auto& [key, block] : model) keys.push_back(key);
    index.find(keys, found);
    for (std::size_t i = 0; i < keys.size(); ++i) ASSERT_EQ(found[i], model.at(keys[i]));
    for (int i = 0; i < 10; ++i) {
      const auto victim = std::next(model.begin(), static_cast<int>(random() % model.size()));
      index.erase(victim->second);
      ASSERT_EQ(index.find(victim->first), nullptr);
      model.erase(victim);
    }
  }
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
  std::vector<Block*> blocks;
  for (int i = 0; i < 2000; ++i) {
    std::vector<Token> tokens;
    for (int at = 0; at < 4; ++at) tokens.push_back(static_cast<Token>(random() % 9) - 4);
    const BlockKey key = derive_block_key(entry.digest, tokens);
    if (catalog.find(key)) continue;
    Block* const block = catalog.insert(entry, nullptr, key, tokens);
    block->disk = DiskCopy::present;
    blocks.push_back(block);
  }
  for (int i = 0; i < 2000; ++i) {
    std::vector<Token> wanted;
    const int length = 1 + static_cast<int>(random() % 4);
    for (int at = 0; at < length; ++at) wanted.push_back(static_cast<Token>(random() % 11) - 5);
    std::uint32_t most = 0;
    for (const Block* block : blocks) {
      std::uint32_t shared = 0;
      while (shared < wanted.size() && block->tokens()[shared] == wanted[shared]) ++shared;
      most = std::max(most, shared);
    }
    const auto [best, shared] = catalog.best_partial(entry, nullptr, wanted);
    ASSERT_EQ(shared, most);
    ASSERT_EQ(best != nullptr, most > 0);
    if (best) {
      ASSERT_TRUE(std::equal(wanted.begin(), wanted.begin() + shared, best->tokens().begin()));
    }
  }
}

TEST(Catalog, KeepsChildrenInOrderWhateverComesAndGoes) {
  Catalog catalog;
  SpaceEntry& entry = **catalog.open_space(space("a"));
  std::mt19937 random(5);
  std::map<std::pair<std::vector<Token>, BlockKey>, Block*> model;
  for (int i = 0; i < 3000; ++i) {
    std::vector<Token> tokens;
    for (int at = 0; at < 4; ++at) tokens.push_back(static_cast<Token>(random() % 5) - 2);
    // The same tokens under several keys: blocks may differ in what is no token.
    const BlockKey key = derive_block_key(entry.digest, tokens, {{std::to_string(random() % 3)}});
    if (Block* const known = catalog.find(key)) {
      model.erase({tokens, key});
      catalog.remove(*known);
    } else {
      model[{tokens, key}] = catalog.insert(entry, nullptr, key, tokens);
    }
    if (i % 50 != 0) continue;
    auto expected = model.begin();
    for (Block* child : *entry.first_blocks) {
      ASSERT_NE(expected, model.end());
      ASSERT_EQ(child, expected->second);
      ++expected;
    }
    ASSERT_EQ(expected, model.end());
    Block* back = entry.first_blocks->last();
    for (auto at = model.rbegin(); at != model.rend();
         ++at, back = entry.first_blocks->before(*back))
      ASSERT_EQ(back, at->second);
    ASSERT_EQ(back, nullptr);
  }
}

// A system prompt may have a hundred thousand continuations, sent in the order of their tokens.
TEST(Catalog, ManyChildrenInOrderMakeAShallowTree) {
  Catalog catalog;
  SpaceEntry& entry = **catalog.open_space(space("a"));
  constexpr int count = 100'000;
  std::vector<Block*> blocks;
  for (Token i = 0; i < count; ++i) {
    const std::vector<Token> tokens = {i, 0, 0, 0};
    blocks.push_back(
        catalog.insert(entry, nullptr, derive_block_key(entry.digest, tokens), tokens));
  }
  double depths = 0;
  for (const Block* block : blocks)
    depths += static_cast<double>(entry.first_blocks->depth_of(*block));
  EXPECT_LT(depths / count, 60);  // about 22 are expected, and more than 30 are never seen
}

// What a block costs in memory besides its tokens, all included: its links in the order of
// children and of eviction, and its place in the index.
TEST(Catalog, KnowsABlockInAtMost128Bytes) {
  for (const std::uint32_t block_tokens : {4u, 32u, 512u}) {
    Catalog catalog;
    SpaceDescriptor descriptor = space("a");
    descriptor.block_tokens = block_tokens;
    SpaceEntry& entry = **catalog.open_space(descriptor);
    std::vector<Token> tokens(block_tokens);
    Block* parent = nullptr;
    constexpr int count = 200'000;
    for (int i = 0; i < count; ++i) {
      if (i % 100 == 0) parent = nullptr;
      tokens[0] = i;
      const BlockKey key =
          derive_block_key(parent ? parent->key : entry.digest, std::span(tokens).first(4));
      parent = catalog.insert(entry, parent, key, tokens);
      ASSERT_NE(parent, nullptr);
    }
    const CatalogMemory memory = catalog.memory();
    EXPECT_EQ(memory.blocks, static_cast<std::size_t>(count));
    EXPECT_EQ(memory.token_bytes, std::size_t{count} * block_tokens * sizeof(Token));
    EXPECT_GE(memory.bytes_per_block(), sizeof(Block));
    EXPECT_LE(memory.bytes_per_block(), 128);
  }
}

TEST(Catalog, UsesTheMemoryOfRemovedBlocksAgain) {
  Catalog catalog;
  SpaceEntry& entry = **catalog.open_space(space("a"));
  std::size_t bytes = 0;
  for (int round = 0; round < 5; ++round) {
    std::vector<Block*> blocks;
    for (Token i = 0; i < 5000; ++i) {
      const std::vector<Token> tokens = {i, round, 0, 0};
      blocks.push_back(
          catalog.insert(entry, nullptr, derive_block_key(entry.digest, tokens), tokens));
    }
    const std::size_t now = catalog.memory().block_bytes;
    if (round == 0) bytes = now;
    // The index may settle at another size.
    EXPECT_LE(now, bytes + bytes / 8);
    for (Block* block : blocks) catalog.remove(*block);
  }
}

TEST(Region, GivesPiecesUntilItIsUsedUp) {
  Region region;
  Pool pool(region, 100);
  std::set<void*> places;
  for (int i = 0; i < 10'000; ++i) {
    void* const place = pool.allocate();
    ASSERT_NE(place, nullptr);
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(place) % short_pointer_alignment, 0u);
    std::memset(place, i, 100);
    ASSERT_TRUE(places.insert(place).second);
  }
  for (auto at = places.begin(); std::next(at) != places.end(); ++at)
    ASSERT_GE(static_cast<std::byte*>(*std::next(at)) - static_cast<std::byte*>(*at), 100);
  pool.free(*places.begin());
  EXPECT_EQ(pool.allocate(), *places.begin());
  EXPECT_EQ(pool.used(), places.size());
  EXPECT_LE(pool.bytes(), places.size() * 104 + Region::piece_bytes + 104 * places.size() / 600);
}

TEST(ShortPointer, PointsToTheSameFromWhereverItIs) {
  struct alignas(short_pointer_alignment) Pair {
    std::uint32_t filler = 0;
    ShortPointer<Pair> a, b;
  };
  std::array<Pair, 3> pairs;
  EXPECT_EQ(pairs[0].a, nullptr);
  pairs[0].a = &pairs[2];
  pairs[2].b = pairs[0].a;
  EXPECT_EQ(pairs[2].b, &pairs[2]);
  pairs[1] = pairs[0];
  EXPECT_EQ(pairs[1].a.get(), &pairs[2]);
  pairs[1].a = nullptr;
  EXPECT_FALSE(pairs[1].a);
  EXPECT_EQ(pairs[2].b, pairs[0].a);
}

// What is the next to go, whatever was put in and taken out before.
TEST(LruPolicy, TheLeastRecentGoesFirstAndOfEqualsTheDeeper) {
  Catalog catalog;
  SpaceEntry& entry = **catalog.open_space(space("a"));
  std::mt19937 random(11);
  LruPolicy policy(Tier::disk);
  using Place = std::tuple<std::uint64_t, std::int64_t, BlockKey>;
  std::map<Place, Block*> model;
  const auto place = [](const Block& block) {
    return Place(std::uint64_t{block.recency}, -static_cast<std::int64_t>(block.depth), block.key);
  };
  std::vector<Block*> blocks;
  for (Token i = 0; i < 500; ++i) {
    Block* const parent = i % 7 == 0 ? nullptr : blocks.back();
    const std::vector<Token> tokens = {i, 0, 0, 0};
    blocks.push_back(catalog.insert(
        entry, parent, derive_block_key(parent ? parent->key : entry.digest, tokens), tokens));
  }
  for (int step = 0; step < 20'000; ++step) {
    Block& block = *blocks[random() % blocks.size()];
    if (const auto found = model.find(place(block)); found != model.end()) {
      policy.erase(block);
      model.erase(found);
    } else {
      block.recency = random() % 50;
      policy.insert(block);
      model.emplace(place(block), &block);
    }
    ASSERT_EQ(policy.size(), model.size());
    ASSERT_EQ(policy.next(), model.empty() ? nullptr : model.begin()->second);
  }
  while (Block* const block = policy.next()) {
    ASSERT_EQ(block, model.begin()->second);
    policy.erase(*block);
    model.erase(model.begin());
  }
  EXPECT_TRUE(model.empty());
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
