#include "core/background_population.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace terrace {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t file_bytes = std::size_t{4} << 20;

struct MappedFile {
  UniqueFd fd = create_memory_file("test", file_bytes).value();
  SharedMapping mapping =
      SharedMapping::map(fd.get(), file_bytes, SharedMapping::Access::read_write).value();

  std::size_t resident_pages(std::size_t begin, std::size_t end) const {
    std::vector<unsigned char> pages((end - begin) / page_bytes);
    EXPECT_EQ(::mincore(mapping.data() + begin, end - begin, pages.data()), 0);
    return static_cast<std::size_t>(
        std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
  }
};

TEST(BackgroundPopulation, TouchesItsRangeAndNothingElse) {
  const MappedFile file;
  constexpr std::size_t begin = 16 * page_bytes, end = file_bytes - 16 * page_bytes;
  const BackgroundPopulation population(file.mapping, begin, end);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (file.resident_pages(begin, end) < (end - begin) / page_bytes &&
         std::chrono::steady_clock::now() < limit)
    std::this_thread::yield();
  EXPECT_EQ(file.resident_pages(begin, end), (end - begin) / page_bytes);
  EXPECT_EQ(file.resident_pages(0, begin), 0u);
  EXPECT_EQ(file.resident_pages(end, file_bytes), 0u);
}

TEST(BackgroundPopulation, EndsWithTheMapping) {
  const MappedFile file;
  const BackgroundPopulation beyond(file.mapping, file_bytes, 2 * file_bytes);
  const BackgroundPopulation over(file.mapping, 0, 2 * file_bytes);
}

}  // namespace
}  // namespace terrace
