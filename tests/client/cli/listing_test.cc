#include "client/cli/listing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "client/cli/select_blocks.h"
#include "client/cli/text.h"

namespace terrace::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

BlockKey key(std::uint8_t first) {
  BlockKey result;
  result.bytes.fill(0);
  result.bytes[0] = first;
  return result;
}

ListedBlock block(std::uint8_t space, std::uint8_t name, std::uint8_t parent, std::uint32_t depth) {
  ListedBlock result;
  result.space = key(space);
  result.key = key(name);
  result.parent = key(parent);
  result.depth = depth;
  result.tokens = 32;
  result.bytes = 720 * 1024;
  result.tiers[static_cast<std::size_t>(Tier::disk)] = true;
  return result;
}

std::vector<int> names(const std::vector<ListedBlock>& blocks) {
  std::vector<int> result;
  for (const ListedBlock& one : blocks) result.push_back(one.key.bytes[0]);
  return result;
}

// Two prefixes that share their head, in the one space; a lone block whose parent is gone; another
// space.
std::vector<ListedBlock> some_blocks() {
  return {block(1, 50, 1, 0),  block(1, 40, 50, 1), block(1, 30, 40, 2), block(1, 45, 50, 1),
          block(1, 20, 45, 2), block(1, 10, 99, 3), block(2, 60, 2, 0)};
}

TEST(Listing, PrefixesRunFromHeadToTailWhateverTheOrderOfKeys) {
  const std::vector<int> expected = {50, 40, 30, 45, 20, 10, 60};
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<ListedBlock> blocks = some_blocks();
    std::shuffle(blocks.begin(), blocks.end(), random);
    sort_by_prefix(blocks);
    EXPECT_EQ(names(blocks), expected);
  }
}

TEST(Listing, ALongPrefixNeedsNoDeepRecursion) {
  std::vector<ListedBlock> blocks;
  BlockKey parent = key(1);
  for (std::uint32_t depth = 0; depth < 100'000; ++depth) {
    ListedBlock next = block(1, 0, 0, depth);
    next.parent = parent;
    next.key.bytes[3] = static_cast<std::uint8_t>(depth >> 16);
    next.key.bytes[2] = static_cast<std::uint8_t>(depth >> 8);
    next.key.bytes[1] = static_cast<std::uint8_t>(depth);
    next.key.bytes[0] = 200;
    parent = next.key;
    blocks.push_back(next);
  }
  std::reverse(blocks.begin(), blocks.end());
  sort_by_prefix(blocks);
  ASSERT_EQ(blocks.size(), 100'000u);
  for (std::uint32_t depth = 0; depth < blocks.size(); ++depth)
    ASSERT_EQ(blocks[depth].depth, depth);
}

// Blocks that name each other as parents cannot come from keys that are digests; a faulty daemon's
// must not hang the program.
TEST(Listing, ACycleIsNotFollowed) {
  std::vector<ListedBlock> blocks = {block(1, 50, 1, 0), block(1, 10, 20, 1), block(1, 20, 10, 2)};
  sort_by_prefix(blocks);
  EXPECT_EQ(names(blocks).front(), 50);
  EXPECT_LE(blocks.size(), 3u);
}

TEST(Listing, TableShowsSpacesBlocksAndWhatIsLeftOut) {
  Listing listing;
  listing.blocks = some_blocks();
  sort_by_prefix(listing.blocks);
  listing.space_labels = {{key(1), "demo\x1b[2J"}};
  listing.blocks[0].tiers[static_cast<std::size_t>(Tier::device)] = true;
  listing.blocks[0].holders = 2;
  std::ostringstream out;
  print_listing(listing, 6, out);
  const std::string table = out.str();
  EXPECT_THAT(table, HasSubstr("space 010000000000 (demo?[2J): 6 blocks, 4.22 MiB\n"));
  EXPECT_THAT(table, HasSubstr("320000000000  -                  0      32   720 KiB        2  "
                               "device+disk\n"));
  EXPECT_THAT(table, HasSubstr("280000000000  320000000000       1      32   720 KiB        0  "
                               "disk\n"));
  EXPECT_THAT(table, HasSubstr("and 1 more; --limit 0 shows all\n"));
  EXPECT_THAT(table, Not(HasSubstr("3c0000000000")));
  EXPECT_THAT(table, Not(HasSubstr("more blocks than are listed")));

  listing.complete = false;
  std::ostringstream all;
  print_listing(listing, 0, all);
  EXPECT_THAT(all.str(), HasSubstr("3c0000000000"));
  EXPECT_THAT(all.str(), HasSubstr("holds more blocks than are listed here\n"));
}

TEST(Listing, AnEmptyCacheSaysSo) {
  std::ostringstream table, json;
  print_listing({}, 50, table);
  JsonRows({}, json).end(0);
  EXPECT_EQ(table.str(), "the cache is empty\n");
  EXPECT_EQ(nlohmann::json::parse(json.str()), nlohmann::json::array());
}

TEST(Listing, JsonHoldsWholeKeysAndSurvivesBadLabels) {
  const SpaceLabels labels = {{key(1), "bad \xff utf-8"}};
  std::ostringstream out;
  JsonRows rows(labels, out);
  rows.add(block(1, 50, 1, 0));
  rows.add(block(1, 40, 50, 1));
  rows.end(0);
  const auto json = nlohmann::json::parse(out.str());
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["key"], key(50).hex());
  EXPECT_TRUE(json[0]["parent"].is_null());
  EXPECT_EQ(json[0]["space"], key(1).hex());
  EXPECT_THAT(json[0]["space_label"].get<std::string>(), StartsWith("bad "));
  EXPECT_EQ(json[0]["tiers"], nlohmann::json::array({"disk"}));
  EXPECT_EQ(json[0]["tokens"], 32);
  EXPECT_EQ(json[0]["bytes"], 720 * 1024);
  EXPECT_EQ(json[1]["parent"], key(50).hex());
  EXPECT_EQ(json[1]["depth"], 1);
  EXPECT_EQ(json[1]["holders"], 0);
}

TEST(Listing, RowsTellAgesSpacesAndWhatIsLeftOut) {
  const SpaceLabels labels = {{key(1), "demo\x1b[2J"}};
  std::ostringstream out;
  TableRows rows(10'000, labels, out);
  ListedBlock used = block(1, 50, 1, 0);
  used.recency = 7'000;
  used.uses = 12;
  used.created_unix_ms = 1'000;
  rows.add(used);
  rows.end(2);
  EXPECT_THAT(
      out.str(),
      HasSubstr("320000000000       0      32   720 KiB        0    12      3 s      9 s  disk  "));
  EXPECT_THAT(out.str(), HasSubstr("demo?[2J\nand 2 more; --limit 0 shows all\n"));
}

TEST(SelectBlocks, AFilterTakesWhatMeetsAllOfIt) {
  ListedBlock one = block(1, 50, 1, 3);
  EXPECT_TRUE(BlockFilter{}.takes(one));
  EXPECT_TRUE((BlockFilter{Tier::disk, {key(1)}, 3, false}).takes(one));
  EXPECT_FALSE((BlockFilter{Tier::host, {}, 0, false}).takes(one));
  EXPECT_FALSE((BlockFilter{{}, {key(2)}, 0, false}).takes(one));
  EXPECT_FALSE((BlockFilter{{}, {}, 4, false}).takes(one));
  EXPECT_FALSE((BlockFilter{{}, {}, 0, true}).takes(one));
  one.holders = 1;
  EXPECT_TRUE((BlockFilter{{}, {}, 0, true}).takes(one));
}

TEST(SelectBlocks, TheFirstOfManyComeInOrder) {
  std::vector<ListedBlock> blocks;
  for (std::uint8_t i = 0; i < 50; ++i) {
    blocks.push_back(block(1, i, 1, i));
    blocks.back().recency = 100 - i;
    blocks.back().created_unix_ms = 1000 + i;
    blocks.back().uses = i == 7 ? 9 : 1;
    blocks.back().bytes = i / 2;
  }
  std::mt19937 random(3);
  std::shuffle(blocks.begin(), blocks.end(), random);
  const auto first = [&](BlockOrder order, std::size_t limit, bool reverse = false) {
    FirstBlocks chosen(order, reverse, limit);
    for (const ListedBlock& one : blocks) chosen.add(one);
    EXPECT_EQ(chosen.seen(), 50u);
    return names(chosen.take());
  };
  EXPECT_EQ(first(BlockOrder::hits, 2), (std::vector<int>{7, 0}));
  EXPECT_EQ(first(BlockOrder::last_use, 3), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(first(BlockOrder::last_use, 3, true), (std::vector<int>{49, 48, 47}));
  EXPECT_EQ(first(BlockOrder::age, 3), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(first(BlockOrder::depth, 2), (std::vector<int>{49, 48}));
  // Of the same size the smaller key is first.
  EXPECT_EQ(first(BlockOrder::size, 3), (std::vector<int>{48, 49, 46}));
  EXPECT_EQ(first(BlockOrder::size, 0).size(), 50u);
}

TEST(Text, OfOthersCommandsNoTerminalAndStaysUtf8) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a?[2Jb??");
  EXPECT_EQ(printable("caf\xc3\xa9 \xe2\x8f\x8e \xf0\x9f\x98\x80"),
            "caf\xc3\xa9 \xe2\x8f\x8e \xf0\x9f\x98\x80");
  // C1, half a character, a surrogate, one that is longer than need be.
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J|\xe2\x8f|\xed\xa0\x80|\xc0\xaf"),
            "?2J|??|???|??");
  EXPECT_EQ(visible("one\r\n\ttwo\x01"), "one\\r\\n\\ttwo?");
  EXPECT_EQ(shortened("\xc3\xa9\xc3\xa9\xc3\xa9", 2), "\xc3\xa9\xc3\xa9...");
  EXPECT_EQ(shortened("\xc3\xa9\xc3\xa9", 2), "\xc3\xa9\xc3\xa9");
  EXPECT_EQ(counted(1, "block"), "1 block");
  EXPECT_EQ(counted(0, "block"), "0 blocks");
  EXPECT_EQ(counted(2, "prefix"), "2 prefixes");
}

}  // namespace
}  // namespace terrace::cli
