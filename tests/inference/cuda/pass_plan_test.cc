// Who attends to what: over random passes, every query sees every chunk before it exactly once.
#include "inference/cuda/pass_plan.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

namespace terrace::inference::gpu {
namespace {

constexpr LlamaConfig config{.heads = 6, .kv_heads = 2, .head_dim = 32, .rope_dims = 4};
constexpr std::uint32_t group = 3;

KvGeometry geometry_of(std::uint32_t block_tokens) {
  return {.layers = 1, .kv_heads = 2, .head_dim = 32, .block_tokens = block_tokens};
}

// Pieces whose block tables begin alike or not. Nothing reads the blocks.
class Pass {
 public:
  void add(std::size_t tokens, std::uint32_t first_position, std::vector<std::uintptr_t> blocks) {
    tokens_.emplace_back(tokens, 1);
    std::vector<std::byte*>& table = tables_.emplace_back();
    for (const std::uintptr_t block : blocks)
      table.push_back(reinterpret_cast<std::byte*>(block << 20));
    positions_.push_back(first_position);
  }
  std::vector<PassPiece> pieces() const {
    std::vector<PassPiece> pieces;
    for (std::size_t i = 0; i < tables_.size(); ++i)
      pieces.push_back({tokens_[i], positions_[i], tables_[i]});
    return pieces;
  }

 private:
  std::vector<std::vector<Token>> tokens_;
  std::vector<std::uint32_t> positions_;
  std::vector<std::vector<std::byte*>> tables_;
};

// What the device gets.
struct Sent {
  std::vector<std::byte> bytes;
  PassLayout at;

  explicit Sent(const PassPlan& plan) : bytes(plan.layout().bytes), at(plan.layout()) {
    plan.write(bytes.data());
  }
  template <typename T>
  T read(std::size_t offset, std::size_t index) const {
    T value;
    std::memcpy(&value, &bytes.at(offset + index * sizeof(T)), sizeof value);
    return value;
  }
};

void expect_each_chunk_once(const PassPlan& plan, const Pass& pass, const KvGeometry& geometry) {
  const Sent sent(plan);
  ASSERT_EQ(sent.read<std::uint32_t>(sent.at.item_count, 0), plan.items().size());
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::map<std::uint32_t, std::byte*>> seen;
  for (std::size_t i = 0; i < plan.items().size(); ++i) {
    const auto item = sent.read<AttendItem>(sent.at.items, i);
    ASSERT_EQ(item.first_chunk % span_chunks, 0u);
    if (item.partial) {
      ASSERT_LE(item.end_chunk - item.first_chunk, span_chunks);
    }
    for (std::uint32_t query = item.first_query; query < item.first_query + item.queries; ++query) {
      const auto row = sent.read<std::uint32_t>(sent.at.listed_rows, item.rows + query / group);
      const bool partial = sent.read<std::uint32_t>(sent.at.partial_count, row) > 0;
      ASSERT_EQ(partial, item.partial == 1);
      for (std::uint32_t chunk = item.first_chunk; chunk < item.end_chunk; ++chunk)
        ASSERT_TRUE((seen[{row, query % group}]
                         .emplace(chunk, sent.read<std::byte*>(sent.at.chunks, item.chunks + chunk))
                         .second));
    }
  }
  std::uint32_t row = 0;
  for (const PassPiece& piece : pass.pieces())
    for (std::uint32_t i = 0; i < piece.tokens.size(); ++i, ++row) {
      const std::uint32_t position = piece.first_position + i;
      const auto place = sent.read<RowPlace>(sent.at.places, row);
      ASSERT_EQ(place.position, position);
      ASSERT_EQ(place.token, position % chunk_tokens);
      const auto address = [&](std::uint32_t chunk) {
        return piece.blocks[chunk / geometry.chunks()] +
               chunk % geometry.chunks() * geometry.tile_bytes();
      };
      ASSERT_EQ(place.chunk, address(position / chunk_tokens));
      for (std::uint32_t head = 0; head < group; ++head)
        for (std::uint32_t chunk = 0; chunk <= position / chunk_tokens; ++chunk) {
          const auto& chunks = seen[{row, head}];
          ASSERT_TRUE(chunks.contains(chunk)) << "row " << row << ", chunk " << chunk;
          ASSERT_EQ(chunks.at(chunk), address(chunk));
        }
    }
  // What fills the pass up writes no KV.
  for (; row < plan.shape().rows; ++row)
    ASSERT_EQ(sent.read<RowPlace>(sent.at.places, row).chunk, nullptr);
}

TEST(PassPlan, EveryQuerySeesEveryChunkBeforeItOnceHoweverTheWorkIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t block_tokens = 32u << random() % 3;
    const KvGeometry geometry = geometry_of(block_tokens);
    // Room for all partial results, for a few, for none.
    PassPlan plan(config, geometry, {.partial_slots = std::size_t{random() % 3} * 40},
                  std::vector<double>(2, 1));
    Pass pass;
    std::uintptr_t next_block = 1000;
    for (std::size_t pieces = 1 + random() % 12; pieces > 0; --pieces) {
      const std::size_t tokens = random() % 3 ? 1 : 1 + random() % 60;
      const std::uint32_t position = random() % 700;
      const std::size_t blocks = (position + tokens + block_tokens - 1) / block_tokens;
      // Leading blocks of one of two prompts, which begin alike themselves.
      const std::size_t shared = random() % (position / block_tokens + 1);
      const std::uintptr_t prompt = random() % 2;
      std::vector<std::uintptr_t> table;
      for (std::uintptr_t i = 0; i < blocks; ++i)
        table.push_back(i < shared ? (i < 5 ? 1 + i : 100 * (1 + prompt) + i) : ++next_block);
      pass.add(tokens, position, table);
    }
    const std::size_t logit_rows[] = {0};
    plan.make(pass.pieces(), logit_rows);
    expect_each_chunk_once(plan, pass, geometry);
    if (HasFatalFailure()) return;
  }
}

TEST(PassPlan, SharedChunksAreReadOnceForAllQueriesAndShapesRepeat) {
  const KvGeometry geometry = geometry_of(32);
  std::map<SharedPrefixes, std::size_t> reads;  // chunks that items read
  for (const SharedPrefixes shared : {SharedPrefixes::together, SharedPrefixes::apart}) {
    PassPlan plan(config, geometry, {.partial_slots = 1000, .shared_prefixes = shared},
                  std::vector<double>(2, 1));
    PassShape before;
    for (std::uint32_t step = 0; step < 2; ++step) {
      Pass pass;
      for (std::uintptr_t sequence = 0; sequence < 10; ++sequence) {
        std::vector<std::uintptr_t> table = {1, 2, 3, 4, 5, 6, 7, 8};  // two spans
        table.push_back(100 + sequence);
        pass.add(1, 256 + step, table);
      }
      plan.make(pass.pieces(), {});
      if (step == 1) {
        EXPECT_EQ(plan.shape(), before);
      }
      before = plan.shape();
    }
    for (const AttendItem& item : plan.items()) reads[shared] += item.end_chunk - item.first_chunk;
  }
  // 30 queries of a kv head are two items; each sequence by itself has one a span.
  EXPECT_EQ(reads[SharedPrefixes::together], 2 * 8 + 10u);
  EXPECT_EQ(reads[SharedPrefixes::apart], 10 * 9u);
}

}  // namespace
}  // namespace terrace::inference::gpu
