#include "core/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace terrace {
namespace {

TEST(SharedMemory, TwoMappingsSeeTheSameBytes) {
  const UniqueFd fd = create_memory_file("test", 8192).value();
  const auto writer = SharedMapping::map(fd.get(), 8192, SharedMapping::Access::read_write).value();
  const auto reader = SharedMapping::map(fd.get(), 8192, SharedMapping::Access::read_only).value();
  writer.populate(0, 8192);
  writer.data()[5000] = std::byte{42};
  EXPECT_EQ(reader.data()[5000], std::byte{42});
}

TEST(SharedMemory, CannotBeShrunk) {
  const UniqueFd fd = create_memory_file("test", 8192).value();
  EXPECT_NE(::ftruncate(fd.get(), 0), 0);
}

TEST(SharedMemory, MappingMoreThanThereIsFails) {
  const UniqueFd fd = create_memory_file("test", 4096).value();
  const auto mapping = SharedMapping::map(fd.get(), 8192, SharedMapping::Access::read_only);
  ASSERT_FALSE(mapping.has_value());
  EXPECT_EQ(mapping.error().code(), StatusCode::invalid_argument);
}

TEST(SharedMemory, SealedAgainstWritingRefusesWritersAndKeepsTheOldOne) {
  const UniqueFd fd = create_memory_file("test", 4096).value();
  const auto owner = SharedMapping::map(fd.get(), 4096, SharedMapping::Access::read_write).value();
  ASSERT_TRUE(seal_against_writing(fd.get()).ok());
  EXPECT_FALSE(SharedMapping::map(fd.get(), 4096, SharedMapping::Access::read_write).has_value());
  const auto reader = SharedMapping::map(fd.get(), 4096, SharedMapping::Access::read_only).value();
  EXPECT_NE(::mprotect(reader.data(), 4096, PROT_READ | PROT_WRITE), 0);
  owner.data()[0] = std::byte{7};
  EXPECT_EQ(reader.data()[0], std::byte{7});
}

}  // namespace
}  // namespace terrace
