#include "storage/disk/index.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/support/temp_dir.h"

namespace terrace::storage {
namespace {

constexpr unsigned entry_count = 3000;

IndexEntry entry_of(unsigned number) {
  IndexEntry entry;
  entry.tokens = {static_cast<Token>(number), 7};
  entry.key = derive_block_key({}, entry.tokens);
  entry.extent = {0, 2 * number, 2};
  entry.payload_bytes = entry.stored_bytes = 100;
  entry.sequence = number + 1;
  return entry;
}

// Of several threads each reads a part: together they must read what one would.
TEST(Index, PartsOfAScanAreTheWhole) {
  const test_support::TempDir directory;
  const auto files = make_system_files();
  auto index = Index::open(*files, directory.path() + "/index", Index::Mode::create);
  ASSERT_TRUE(index) << index.error().message();
  std::map<BlockKey, unsigned> numbers;
  for (unsigned number = 0; number < entry_count;) {
    IndexBatch batch;
    for (unsigned i = 0; i < 500; ++i, ++number) {
      batch.puts.push_back(entry_of(number));
      numbers[batch.puts.back().key] = number;
      // What has none is as old as can be.
      if (number % 3 != 0) batch.recency.emplace_back(batch.puts.back().key, number);
    }
    ASSERT_TRUE((*index)->commit(batch, false).ok());
  }
  ASSERT_TRUE((*index)->mark_complete().ok());
  for (const unsigned parts : {1u, 2u, 7u}) {
    SCOPED_TRACE(parts);
    std::set<BlockKey> seen;
    for (unsigned part = 0; part < parts; ++part) {
      std::size_t here = 0;
      const Status scanned =
          (*index)->scan(part, parts, [&](const IndexEntry& entry, std::uint64_t recency) {
            ++here;
            EXPECT_TRUE(seen.insert(entry.key).second) << "in two parts";
            const unsigned number = numbers.at(entry.key);
            EXPECT_EQ(entry.tokens, entry_of(number).tokens);
            EXPECT_EQ(entry.sequence, number + 1);
            EXPECT_EQ(recency, number % 3 != 0 ? number : 0);
          });
      EXPECT_TRUE(scanned.ok()) << scanned.message();
      EXPECT_GT(here, entry_count / parts / 2) << "the parts are of about the same size";
    }
    EXPECT_EQ(seen.size(), entry_count);
  }
}

}  // namespace
}  // namespace terrace::storage
