#include "inference/paged_kv/prefix_table.h"

#include <gtest/gtest.h>

#include <numeric>

#include "inference/paged_kv/private_memory.h"
#include "inference/paged_kv/sequence_kv.h"

namespace terrace::inference {
namespace {

constexpr KvGeometry small{.layers = 1, .kv_heads = 1, .head_dim = 16, .block_tokens = 32};

TEST(PrivateMemory, KeepsItsLimitAndGetsBackWhatIsLetGoOf) {
  PrivateMemory memory(host_kv_memory(), 3 * 4096);
  auto one = memory.allocate(5000);
  ASSERT_TRUE(one.has_value());
  EXPECT_EQ(memory.used_bytes(), 8192u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*one)->address) % 4096, 0u);
  EXPECT_EQ(memory.allocate(5000).error().code(), StatusCode::resource_exhausted);
  KvBlockRef other = *one;
  one->reset();
  EXPECT_EQ(memory.used_bytes(), 8192u);
  other.reset();
  EXPECT_EQ(memory.used_bytes(), 0u);
}

TEST(PrefixTable, HasWhatSomebodyHolds) {
  PrivateMemory memory;
  PrefixTable table;
  const auto keys = derive_block_keys({}, std::vector<Token>(96, 1), 32);
  auto first = *memory.allocate(64), second = *memory.allocate(64);
  table.publish(keys[0], first);
  table.publish(keys[1], second);
  EXPECT_EQ(table.find(keys).size(), 2u);
  first.reset();
  EXPECT_TRUE(table.find(keys).empty());  // only leading runs are of use
  EXPECT_EQ(memory.used_bytes(), 4096u);
}

// Two sequences of one process without a daemon.
class SharingSequences : public ::testing::Test {
 protected:
  std::unique_ptr<SequenceKv> sequence(bool store = true) {
    SequenceCacheOptions options;
    options.shared = &table_;
    options.memory = &memory_;
    options.store = store;
    return std::make_unique<SequenceKv>(small, nullptr, std::move(options));
  }
  static std::vector<Token> prompt(std::size_t tokens) {
    std::vector<Token> ids(tokens);
    std::iota(ids.begin(), ids.end(), 0);
    return ids;
  }

  PrivateMemory memory_;
  PrefixTable table_;
};

TEST_F(SharingSequences, ReadTheSameMemoryAndGoOnApart) {
  auto one = sequence(), other = sequence();
  EXPECT_EQ(one->start(prompt(100)).cached_tokens, 0u);
  ASSERT_TRUE(one->grow_to(100).ok());
  one->computed(prompt(100));
  // Never all of a prompt: of 96 tokens the last one is computed.
  EXPECT_EQ(sequence()->start(prompt(96)).cached_tokens, 64u);
  EXPECT_EQ(other->start(prompt(100)).cached_tokens, 96u);
  ASSERT_TRUE(other->grow_to(100).ok());
  ASSERT_EQ(other->blocks().size(), 4u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(one->blocks()[i], other->blocks()[i]);
  EXPECT_NE(one->blocks()[3], other->blocks()[3]);
  one.reset();
  EXPECT_EQ(memory_.used_bytes(), 4 * 4096u);
}

TEST_F(SharingSequences, OneThatStoresNothingPublishesNothing) {
  auto one = sequence(false);
  one->start(prompt(100));
  ASSERT_TRUE(one->grow_to(100).ok());
  one->computed(prompt(100));
  EXPECT_EQ(sequence()->start(prompt(100)).cached_tokens, 0u);
}

TEST_F(SharingSequences, OfAnswersWhatIsFullIsSharedToo) {
  auto one = sequence();
  one->start(prompt(40));
  ASSERT_TRUE(one->grow_to(80).ok());
  one->computed(prompt(40));
  const auto all = prompt(80);
  one->computed(std::span(all).subspan(40));
  EXPECT_EQ(sequence()->start(prompt(80)).cached_tokens, 64u);
}

}  // namespace
}  // namespace terrace::inference
