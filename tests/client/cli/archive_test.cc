// Archives as files: what is written is read again, and nothing else ever is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>

#include "client/cli/archive_export.h"
#include "client/cli/archive_reader.h"
#include "client/cli/archive_writer.h"
#include "core/checksum.h"
#include "tests/support/temp_dir.h"

namespace terrace::cli {
namespace {

using Bytes = std::vector<std::byte>;

SpaceDescriptor archived_space(const std::string& name, std::uint64_t block_bytes) {
  SpaceDescriptor space;
  space.model_digest.fill(static_cast<std::uint8_t>(name.size()));
  space.numerics_id = name;
  space.kv_dtype = "bf16";
  space.layout_id = "test";
  space.block_tokens = 4;
  space.block_bytes = block_bytes;
  space.label = name;
  return space;
}

struct Archived {
  RecordHeader header;
  Bytes payload;
};

// A chain of blocks of a space.
std::vector<Archived> chain_of(const SpaceDescriptor& space, std::size_t blocks, Token first) {
  std::vector<Archived> chain;
  BlockKey parent = space.digest();
  for (std::size_t i = 0; i < blocks; ++i) {
    Archived one;
    one.header.space = space.digest();
    one.header.parent = parent;
    for (std::uint32_t t = 0; t < space.block_tokens; ++t)
      one.header.tokens.push_back(first + static_cast<Token>(i * space.block_tokens + t));
    one.header.key = parent = derive_block_key(parent, one.header.tokens);
    one.header.created_unix_ms = 1'700'000'000'000 + static_cast<std::int64_t>(i);
    one.payload.resize(space.block_bytes);
    for (std::size_t at = 0; at < one.payload.size(); ++at)
      one.payload[at] = static_cast<std::byte>(one.header.key.bytes[at % 32] + at / 32);
    chain.push_back(std::move(one));
  }
  return chain;
}

class ArchiveTest : public ::testing::Test {
 protected:
  ArchiveTest() {
    for (std::size_t i = 0; i < 2; ++i) {
      blocks_[i] = chain_of(spaces_[i], 3, static_cast<Token>(1 + 1000 * i));
    }
  }

  void write_some(ArchiveWriter& writer, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      if (i % 3 == 0) {
        ASSERT_TRUE(writer.add(spaces_[i / 3]).ok());
      }
      const Archived& block = blocks_[i / 3][i % 3];
      ASSERT_TRUE(writer.add(block.header, block.payload, payload_checksum(block.payload)).ok());
    }
  }
  Bytes whole() {
    auto writer = ArchiveWriter::create(path_, 1);
    EXPECT_TRUE(writer.has_value());
    write_some(*writer, 0, 6);
    EXPECT_TRUE(writer->finish().ok());
    return contents();
  }
  Bytes contents() const {
    std::ifstream file(path_, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    Bytes bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  }

  struct Read {
    Status opened;
    std::vector<BlockKey> keys;
    std::uint64_t spaces = 0, damages = 0;
    bool complete = false;
  };
  // Everything that a reader makes of some bytes. Each block must be one that was written.
  Read read(const Bytes& bytes) const {
    Read read;
    auto reader = ArchiveReader::open(
        [&](std::uint64_t offset, std::span<std::byte> into) -> Result<std::size_t> {
          const std::size_t from = std::min<std::uint64_t>(offset, bytes.size());
          const std::size_t count = std::min(into.size(), bytes.size() - from);
          std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(from), count, into.begin());
          return count;
        });
    if (!reader) {
      read.opened = reader.error();
      return read;
    }
    for (;;) {
      const auto part = reader->next();
      if (!part || !*part) break;
      if (const auto* space = std::get_if<SpaceDescriptor>(&**part)) {
        EXPECT_TRUE(*space == spaces_[0] || *space == spaces_[1]);
        ++read.spaces;
        continue;
      }
      const auto& record = std::get<ArchiveRecord>(**part);
      const bool known = std::ranges::any_of(blocks_, [&](const auto& chain) {
        return std::ranges::any_of(chain, [&](const Archived& block) {
          return block.header.key == record.header.key && block.payload == record.payload &&
                 block.header.created_unix_ms == record.header.created_unix_ms;
        });
      });
      EXPECT_TRUE(known) << record.header.key.hex();
      read.keys.push_back(record.header.key);
    }
    read.damages = reader->damages();
    read.complete = reader->complete();
    return read;
  }

  test_support::TempDir directory_;
  const std::string path_ = directory_.file("blocks.terrace");
  const std::array<SpaceDescriptor, 2> spaces_ = {archived_space("one", 6000 / 64 * 64),
                                                  archived_space("other", 4096)};
  std::array<std::vector<Archived>, 2> blocks_;
};

TEST_F(ArchiveTest, IsReadAsItWasWritten) {
  const Bytes bytes = whole();
  const Read read_back = read(bytes);
  EXPECT_TRUE(read_back.complete);
  EXPECT_EQ(read_back.damages, 0u);
  EXPECT_EQ(read_back.spaces, 2u);
  ASSERT_EQ(read_back.keys.size(), 6u);
  EXPECT_EQ(read_back.keys[1], blocks_[0][1].header.key);
  EXPECT_EQ(bytes.size() % archive_unit_bytes, 0u);
}

TEST_F(ArchiveTest, CutShortAnywhereItIsKnownAsSuch) {
  const Bytes bytes = whole();
  for (std::size_t size = archive_unit_bytes; size < bytes.size(); size += 1000) {
    const Read cut = read({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_FALSE(cut.complete) << size;
    EXPECT_LE(cut.keys.size(), 6u);
  }
  Bytes longer = bytes;
  longer.resize(longer.size() + archive_unit_bytes);
  EXPECT_FALSE(read(longer).complete);
  // One record less, in its middle, is no archive of what was written either.
  Bytes shorter(bytes.begin(), bytes.begin() + 2 * archive_unit_bytes);
  shorter.insert(shorter.end(), bytes.begin() + 5 * archive_unit_bytes, bytes.end());
  const Read without = read(shorter);
  EXPECT_EQ(without.keys.size(), 5u);
  EXPECT_FALSE(without.complete);
}

TEST_F(ArchiveTest, OneWrongBitCostsOneRecordAtMost) {
  const Bytes bytes = whole();
  for (std::size_t at = archive_unit_bytes; at < bytes.size(); at += 517) {
    Bytes flipped = bytes;
    flipped[at] ^= std::byte{4};
    const Read damaged = read(flipped);
    EXPECT_GE(damaged.keys.size(), 5u) << at;
    EXPECT_FALSE(damaged.complete) << at;
    EXPECT_GE(damaged.damages, 1u) << at;
  }
}

TEST_F(ArchiveTest, AnotherVersionAndForeignFilesAreRefusedInWords) {
  Bytes bytes = whole();
  bytes[8] = std::byte{2};
  const std::uint64_t checksum = xxh3(std::span(bytes).first(archive_unit_bytes - 8));
  std::memcpy(bytes.data() + archive_unit_bytes - 8, &checksum, sizeof checksum);
  const Read newer = read(bytes);
  EXPECT_EQ(newer.opened.code(), StatusCode::failed_precondition);
  EXPECT_NE(newer.opened.message().find("format version 2; this program reads version 1"),
            std::string::npos);
  EXPECT_EQ(read(Bytes(9000, std::byte{'x'})).opened.code(), StatusCode::corruption);
  EXPECT_EQ(read({}).opened.code(), StatusCode::corruption);
}

TEST_F(ArchiveTest, AnExportThatWasCutAnywhereIsGoneOnWith) {
  const Bytes bytes = whole();
  for (const std::size_t size : {4096u, 8192u, 9000u, 20480u, 20500u, 40960u, 53248u}) {
    std::filesystem::remove(path_);
    std::ofstream(unfinished_archive_path(path_), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(std::min(size, bytes.size())));
    std::size_t spaces = 0, records = 0;
    auto writer = ArchiveWriter::resume(path_, [&](const ArchivePart& part) {
      ++(std::holds_alternative<SpaceDescriptor>(part) ? spaces : records);
    });
    ASSERT_TRUE(writer.has_value()) << writer.error().message();
    EXPECT_EQ(writer->sum().records, records);
    // A space may be there without a record of it.
    for (std::size_t i = records; i < 6; ++i) {
      if (i / 3 >= spaces) {
        ASSERT_TRUE(writer->add(spaces_[i / 3]).ok());
        ++spaces;
      }
      const Archived& block = blocks_[i / 3][i % 3];
      ASSERT_TRUE(writer->add(block.header, block.payload, payload_checksum(block.payload)).ok());
    }
    ASSERT_TRUE(writer->finish().ok());
    EXPECT_EQ(contents(), bytes) << size;
  }
  EXPECT_EQ(
      ArchiveWriter::resume(directory_.file("none"), [](const ArchivePart&) {}).error().code(),
      StatusCode::not_found);
}

// Run under the sanitizers, too.
TEST_F(ArchiveTest, HostileBytesGiveNothingThatWasNotWritten) {
  constexpr unsigned rounds = 1500;
  const Bytes bytes = whole();
  std::mt19937_64 random(20261130);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  const auto reseal = [](Bytes& hostile, std::size_t unit) {
    const auto own = std::span(hostile).subspan(unit * archive_unit_bytes, archive_unit_bytes);
    const std::uint64_t checksum = xxh3(own.first(archive_unit_bytes - 8));
    std::memcpy(own.data() + archive_unit_bytes - 8, &checksum, sizeof checksum);
  };
  std::size_t opened = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    Bytes hostile = bytes;
    const std::size_t units = hostile.size() / archive_unit_bytes;
    for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
      const std::size_t unit = below(units);
      switch (below(4)) {
        case 0:
          hostile[below(hostile.size())] = static_cast<std::byte>(random());
          break;
        case 1:  // a field, with a checksum that agrees
          hostile[unit * archive_unit_bytes + below(64)] = static_cast<std::byte>(random());
          reseal(hostile, unit);
          break;
        case 2:
          std::copy_n(
              hostile.begin() + static_cast<std::ptrdiff_t>(unit * archive_unit_bytes),
              archive_unit_bytes,
              hostile.begin() + static_cast<std::ptrdiff_t>(below(units) * archive_unit_bytes));
          break;
        case 3:  // a number that is absurd
          std::memset(hostile.data() + unit * archive_unit_bytes + 8 * below(8), 0xff, 8);
          reseal(hostile, unit);
          break;
      }
    }
    if (below(4) == 0) hostile.resize(below(hostile.size()));
    std::uint64_t before = 0;
    const auto mutated = [&] {
      // A resealed record may say another time: what counts is key and bytes.
      auto reader = ArchiveReader::open(
          [&](std::uint64_t offset, std::span<std::byte> into) -> Result<std::size_t> {
            const std::size_t from = std::min<std::uint64_t>(offset, hostile.size());
            const std::size_t count = std::min(into.size(), hostile.size() - from);
            std::copy_n(hostile.begin() + static_cast<std::ptrdiff_t>(from), count, into.begin());
            ++before;
            return count;
          });
      if (!reader) return;
      ++opened;
      for (;;) {
        const auto part = reader->next();
        if (!part || !*part) return;
        const auto* record = std::get_if<ArchiveRecord>(&**part);
        if (!record) continue;
        EXPECT_EQ(derive_block_key(record->header.parent, record->header.tokens),
                  record->header.key);
        EXPECT_EQ(payload_checksum(record->payload), record->header.payload_checksum);
        EXPECT_EQ(record->payload.size(), record->header.payload_bytes);
      }
    };
    mutated();
    // It comes to an end: never more reads than there are units and payloads.
    EXPECT_LE(before, 2 * units + 4);
  }
  EXPECT_GT(opened, rounds / 4);
}

client::BlockListing listed(const Archived& block, std::uint32_t depth, std::uint64_t recency) {
  client::BlockListing listing;
  listing.space = block.header.space;
  listing.key = block.header.key;
  listing.parent = block.header.parent;
  listing.depth = depth;
  listing.recency = recency;
  return listing;
}

TEST_F(ArchiveTest, APlanHasParentsFirstAndLeavesOutWhatHasNone) {
  std::vector<client::BlockListing> listing;
  for (std::size_t i = 3; i-- > 0;) {
    listing.push_back(listed(blocks_[0][i], static_cast<std::uint32_t>(i), 10));
    listing.push_back(listed(blocks_[1][i], static_cast<std::uint32_t>(i), 20));
  }
  const auto keys = [](const ExportPlan& plan) {
    std::vector<BlockKey> all;
    for (const client::BlockListing* block : plan.blocks) all.push_back(block->key);
    return all;
  };
  const auto key = [&](std::size_t chain, std::size_t i) { return blocks_[chain][i].header.key; };
  EXPECT_EQ(keys(plan_export(listing, {})),
            (std::vector{key(1, 0), key(1, 1), key(1, 2), key(0, 0), key(0, 1), key(0, 2)}));
  EXPECT_EQ(keys(plan_export(listing, {.hottest = 1})),
            (std::vector{key(1, 0), key(1, 1), key(1, 2)}));
  EXPECT_EQ(keys(plan_export(listing, {.space = spaces_[0].digest()})),
            (std::vector{key(0, 0), key(0, 1), key(0, 2)}));
  EXPECT_EQ(keys(plan_export(listing, {.prefix = key(0, 1)})), (std::vector{key(0, 0), key(0, 1)}));
  EXPECT_EQ(keys(plan_export(listing, {.pinned = true, .pins = {key(1, 1)}})),
            (std::vector{key(1, 0), key(1, 1)}));
  std::erase_if(listing, [&](const auto& block) { return block.key == key(0, 1); });
  const ExportPlan holed = plan_export(listing, {.space = spaces_[0].digest()});
  EXPECT_EQ(keys(holed), (std::vector{key(0, 0)}));
  EXPECT_EQ(holed.unreachable, 1u);
}

}  // namespace
}  // namespace terrace::cli
