// What a daemon may say of where a slot lies.
#include "client/session_arena.h"

#include <gtest/gtest.h>

namespace terrace::client {
namespace {

constexpr std::size_t arena_bytes = 1 << 20;
constexpr std::uint64_t block_bytes = 64 << 10;

std::shared_ptr<const SessionArena> make_arena() {
  const auto file = create_memory_file("arena", arena_bytes);
  EXPECT_TRUE(file.has_value()) << file.error().message();
  auto mapping = SharedMapping::map(file->get(), arena_bytes, SharedMapping::Access::read_write);
  EXPECT_TRUE(mapping.has_value()) << mapping.error().message();
  auto arena = std::make_shared<SessionArena>();
  arena->mapping = std::make_shared<const SharedMapping>(std::move(*mapping));
  return arena;
}

TEST(SessionArena, ASlotLiesInTheArenaAtACacheLine) {
  const auto arena = make_arena();
  ASSERT_TRUE(slot_at(arena, 0, block_bytes).has_value());
  ASSERT_TRUE(slot_at(arena, 64, block_bytes).has_value());
  EXPECT_EQ(slot_at(arena, 64, block_bytes)->address, arena->mapping->data() + 64);
  EXPECT_TRUE(slot_at(arena, arena_bytes - block_bytes, block_bytes).has_value());
  EXPECT_FALSE(slot_at(arena, arena_bytes - block_bytes + 64, block_bytes).has_value());
  EXPECT_FALSE(slot_at(arena, arena_bytes, block_bytes).has_value());
  EXPECT_FALSE(slot_at(arena, ~std::uint64_t{63}, block_bytes).has_value());
  EXPECT_FALSE(slot_at(arena, 0, arena_bytes + 64).has_value());
  for (const std::uint64_t offset : {1, 8, 32, 63, 4095})
    EXPECT_FALSE(slot_at(arena, offset, block_bytes).has_value()) << offset;
}

}  // namespace
}  // namespace terrace::client
