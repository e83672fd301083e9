#include "storage/disk/located_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/bytes.h"
#include "core/space.h"

namespace terrace::storage {
namespace {

LocatedBlock any_block(std::mt19937_64& random) {
  LocatedBlock located;
  located.codec = static_cast<Codec>(random() % 3);
  located.extent = {
      static_cast<std::uint32_t>(random() % max_data_files),
      static_cast<std::uint32_t>(random() % (max_data_file_bytes / extent_unit_bytes)),
      record_units(1 + random() % max_block_bytes)};
  return located;
}

BlockKey key_of(std::uint64_t number) {
  BlockKey key;  // the worst of keys: only a few bits differ
  store_le(key.bytes.data() + 8, number);
  return key;
}

TEST(LocatedTable, AgreesWithAMapWhateverComesAndGoes) {
  std::mt19937_64 random(3);
  LocatedTable table;
  std::map<std::uint64_t, LocatedBlock> model;
  // Growing at first, then shrinking to nothing.
  for (int step = 0; step < 60'000; ++step) {
    const std::uint64_t number = random() % 8'000;
    if (random() % 10 < (step < 30'000 ? 7u : 2u)) {
      table.put(key_of(number), model[number] = any_block(random));
    } else {
      table.erase(key_of(number));
      model.erase(number);
    }
    ASSERT_EQ(table.size(), model.size());
    if (step % 1000 != 0) continue;
    for (std::uint64_t i = 0; i < 8'000; ++i) {
      const auto expected = model.find(i);
      const auto found = table.find(key_of(i));
      ASSERT_EQ(found.has_value(), expected != model.end());
      ASSERT_EQ(table.contains(key_of(i)), found.has_value());
      if (!found) continue;
      EXPECT_EQ(found->extent, expected->second.extent);
      EXPECT_EQ(found->codec, expected->second.codec);
    }
  }
  for (const auto& [number, located] : model) table.erase(key_of(number));
  EXPECT_EQ(table.size(), 0u);
  EXPECT_LT(table.bytes(), 256u << 10);
}

TEST(LocatedTable, TakesLittleMemoryForABlock) {
  std::mt19937_64 random(5);
  LocatedTable table;
  constexpr std::size_t count = 300'000;
  for (std::uint64_t i = 0; i < count; ++i) table.put(key_of(i), any_block(random));
  EXPECT_LE(table.bytes(), 15 * count);
}

TEST(LocatedTable, HardlyGrowsWhenItHasRoomForAll) {
  std::mt19937_64 random(6);
  LocatedTable table;
  constexpr std::size_t count = 300'000;
  table.reserve(count);
  const std::size_t reserved = table.bytes();
  for (std::uint64_t i = 0; i < count; ++i) table.put(key_of(i), any_block(random));
  EXPECT_LE(table.bytes(), reserved + reserved / 20) << "but for uneven shards";
  EXPECT_LE(reserved, 15 * count);
}

}  // namespace
}  // namespace terrace::storage
