#include "core/block_key.h"

#include <gtest/gtest.h>

#include "core/bytes.h"

namespace terrace {
namespace {

TEST(Sha256, AgreesWithThePublishedVector) {
  const std::string_view text = "abc";
  EXPECT_EQ(to_hex(sha256({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()})),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(FieldHasher, FramingKeepsFieldsApart) {
  const Digest one = FieldHasher("t").text(1, "a").text(1, "bc").finish();
  const Digest other = FieldHasher("t").text(1, "ab").text(1, "c").finish();
  EXPECT_NE(one, other);
}

TEST(FieldHasher, TagsKeepEqualTextsApart) {
  EXPECT_NE(FieldHasher("t").text(1, "a").finish(), FieldHasher("t").text(2, "a").finish());
  EXPECT_NE(FieldHasher("t").finish(), FieldHasher("u").finish());
}

// Keys are written to disk: a change of this value makes every store unreadable.
TEST(BlockKey, IsStableAcrossVersions) {
  const std::vector<Token> tokens = {1, 2, 3, 4};
  EXPECT_EQ(derive_block_key(BlockKey{}, tokens).hex(),
            "8df4c650092c8d187da1ee75f5608d897cc92c15482c560fea9e71852f7407de");
}

TEST(BlockKey, DependsOnEveryInput) {
  const std::vector<Token> tokens = {1, 2, 3, 4}, others = {1, 2, 3, 5};
  BlockKey parent;
  parent.bytes[31] = 1;
  const std::vector<std::string> salt = {"s"};
  const BlockKey key = derive_block_key(BlockKey{}, tokens);
  EXPECT_NE(key, derive_block_key(parent, tokens));
  EXPECT_NE(key, derive_block_key(BlockKey{}, others));
  EXPECT_NE(key, derive_block_key(BlockKey{}, tokens, salt));
}

TEST(BlockKeys, CoverOnlyFullBlocksAndChain) {
  const std::vector<Token> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto keys = derive_block_keys(BlockKey{}, tokens, 4);
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0], derive_block_key(BlockKey{}, std::span(tokens).subspan(0, 4)));
  EXPECT_EQ(keys[1], derive_block_key(keys[0], std::span(tokens).subspan(4, 4)));
}

}  // namespace
}  // namespace terrace
