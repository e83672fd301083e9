#include "inference/cpu/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>

#include "core/bytes.h"
#include "tests/inference/cpu/kernel_sets.h"

namespace terrace::inference::test {
namespace {

struct Shape {
  std::uint32_t heads, kv_heads, head_dim, block_tokens;
};

// Blocks of one sequence, zeroed as the contract asks.
struct Blocks {
  std::vector<AlignedBuffer> memory;
  std::vector<std::byte*> table;

  Blocks(const KvGeometry& geometry, std::uint32_t tokens) {
    for (std::uint32_t at = 0; at < tokens; at += geometry.block_tokens) {
      memory.emplace_back(geometry.block_bytes());
      std::memset(memory.back().data(), 0, geometry.block_bytes());
      table.push_back(memory.back().data());
    }
  }
};

// Random q, k and v of a sequence and their attention by the kernels under test.
struct Subject {
  const KernelTable& table;
  Compute compute;
  KvGeometry geometry;
  std::uint32_t heads, tokens;
  std::vector<float> q, k, v;

  Subject(const KernelTable& kernels, Compute compute_type, KvDtype kv, Shape shape,
          std::uint32_t count, unsigned seed)
      : table(kernels),
        compute(compute_type),
        geometry{2, shape.kv_heads, shape.head_dim, shape.block_tokens, kv},
        heads(shape.heads),
        tokens(count),
        q(random_floats(std::size_t{count} * heads * shape.head_dim, seed, 3)),
        k(random_floats(std::size_t{count} * shape.kv_heads * shape.head_dim, seed + 1)),
        v(random_floats(std::size_t{count} * shape.kv_heads * shape.head_dim, seed + 2)) {}

  std::size_t columns() const { return std::size_t{heads} * geometry.head_dim; }
  std::size_t kv_columns() const { return std::size_t{geometry.kv_heads} * geometry.head_dim; }

  // Computes the tokens in steps that end at `cuts` (the last of them at the end).
  std::vector<float> attend(const std::vector<std::uint32_t>& cuts, int threads) {
    Blocks blocks(geometry, tokens);
    std::vector<float> result;
    std::uint32_t begin = 0;
    Team team(threads);
    AttentionPlan plan(table, compute, geometry, heads, threads);
    for (const std::uint32_t end : cuts) {
      const AttentionSequence sequence{0, end - begin, begin, blocks.table};
      run(team, plan, {&sequence, 1}, begin, result);
      begin = end;
    }
    return result;
  }

  // One pass over layer 1; appends the rows' outputs.
  void run(Team& team, AttentionPlan& plan, std::span<const AttentionSequence> sequences,
           std::uint32_t first_token, std::vector<float>& result) {
    std::size_t rows = 0;
    for (const AttentionSequence& sequence : sequences) rows += sequence.tokens;
    PreparedRows out(table, Compute::f32, columns(), rows);
    plan.begin(sequences);
    team.run([&](TeamMember member) {
      plan.store_kv(1, k.data() + first_token * kv_columns(), kv_columns(),
                    v.data() + first_token * kv_columns(), kv_columns(), split(rows, member));
      member.barrier();
      plan.attend(member, 1, q.data() + first_token * columns(), columns(), out);
    });
    for (std::size_t row = 0; row < rows; ++row) {
      const auto* values = reinterpret_cast<const float*>(out.row(row));
      result.insert(result.end(), values, values + columns());
    }
  }
};

// Softmax attention in double over keys and values as they are stored.
std::vector<double> reference(const Subject& s) {
  const std::size_t dim = s.geometry.head_dim, group = s.heads / s.geometry.kv_heads;
  const bool rounds = s.geometry.dtype == KvDtype::bf16;
  const auto stored = [&](float x) { return double{rounds ? round_to_bf16(x) : x}; };
  const auto query = [&](float x) {
    return double{rounds && s.compute == Compute::bf16 ? round_to_bf16(x) : x};
  };
  std::vector<double> result;
  for (std::size_t t = 0; t < s.tokens; ++t) {
    for (std::size_t head = 0; head < s.heads; ++head) {
      const std::size_t kv_head = head / group;
      std::vector<double> weights(t + 1);
      double most = -1e300, total = 0;
      for (std::size_t u = 0; u <= t; ++u) {
        double score = 0;
        for (std::size_t d = 0; d < dim; ++d) {
          score += query(s.q[t * s.columns() + head * dim + d]) *
                   stored(s.k[u * s.kv_columns() + kv_head * dim + d]);
        }
        weights[u] = score / std::sqrt(static_cast<double>(dim));
        most = std::max(most, weights[u]);
      }
      for (double& weight : weights) total += weight = std::exp(weight - most);
      for (std::size_t d = 0; d < dim; ++d) {
        double value = 0;
        for (std::size_t u = 0; u <= t; ++u) {
          value += weights[u] / total * stored(s.v[u * s.kv_columns() + kv_head * dim + d]);
        }
        result.push_back(value);
      }
    }
  }
  return result;
}

class AttentionTest : public testing::TestWithParam<KernelSet> {
 protected:
  const KernelTable& table() const { return *GetParam().table; }
};

TEST_P(AttentionTest, IsSoftmaxAttention) {
  // SmolLM's shape; no groups; wide groups with a head that needs padding; one wide head.
  for (const Shape shape : {Shape{9, 3, 64, 32}, Shape{2, 2, 16, 64}, Shape{8, 1, 24, 32},
                            Shape{20, 1, 8, 32}, Shape{1, 1, 128, 128}}) {
    for (const KvDtype kv : {KvDtype::bf16, KvDtype::f32}) {
      for (const Compute compute : {Compute::bf16, Compute::f32}) {
        Subject subject(table(), compute, kv, shape, 77, 1);
        const std::vector<float> result = subject.attend({77}, 2);
        const std::vector<double> right = reference(subject);
        ASSERT_EQ(result.size(), right.size());
        const double tolerance = kv == KvDtype::bf16 && compute == Compute::bf16 ? 2e-2 : 2e-5;
        for (std::size_t i = 0; i < right.size(); ++i) {
          ASSERT_NEAR(result[i], right[i], tolerance)
              << to_string(kv) << " " << to_string(compute) << " head_dim " << shape.head_dim
              << " at " << i;
        }
      }
    }
  }
}

TEST_P(AttentionTest, CutsAndThreadsDoNotShow) {
  const std::uint32_t tokens = 161;
  std::vector<std::uint32_t> one_by_one(tokens);
  for (std::uint32_t i = 0; i < tokens; ++i) one_by_one[i] = i + 1;
  const std::vector<std::vector<std::uint32_t>> cuts = {
      one_by_one, {1, tokens}, {7, 9, 40, 41, 42, 96, 128, 160, tokens}, {31, 33, 150, tokens}};
  for (const Shape shape : {Shape{9, 3, 64, 32}, Shape{4, 2, 40, 64}}) {
    for (const KvDtype kv : {KvDtype::bf16, KvDtype::f32}) {
      Subject subject(table(), Compute::bf16, kv, shape, tokens, 5);
      const std::vector<float> whole = subject.attend({tokens}, 1);
      for (const auto& cut : cuts) {
        for (int threads = 1; threads <= 3; ++threads) {
          EXPECT_TRUE(same_bits(subject.attend(cut, threads), whole))
              << cut.size() << " steps, " << threads << " threads, " << to_string(kv);
        }
      }
    }
  }
}

// Several sequences in one pass, long and single new tokens mixed, are as if alone.
TEST_P(AttentionTest, SequencesOfAPassDoNotShow) {
  const Shape shape{6, 2, 32, 32};
  const std::vector<std::uint32_t> prefixes = {0, 130, 64, 31, 200};
  const std::vector<std::uint32_t> fresh = {20, 1, 3, 1, 1};
  std::vector<Subject> subjects;
  std::vector<std::vector<float>> alone;
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    const std::uint32_t tokens = prefixes[i] + fresh[i];
    subjects.emplace_back(table(), Compute::bf16, KvDtype::bf16, shape, tokens,
                          static_cast<unsigned>(100 + 10 * i));
    alone.push_back(subjects[i].attend({tokens}, 1));
  }
  for (int threads = 1; threads <= 4; ++threads) {
    Team team(threads);
    AttentionPlan plan(table(), Compute::bf16, subjects[0].geometry, shape.heads, threads);
    std::vector<Blocks> blocks;
    std::vector<AttentionSequence> sequences;
    Subject batch(table(), Compute::bf16, KvDtype::bf16, shape, 0, 0);
    std::vector<float> right;
    for (std::size_t i = 0; i < prefixes.size(); ++i) {
      Subject& subject = subjects[i];
      blocks.emplace_back(subject.geometry, subject.tokens);
      std::vector<float> ignored;
      if (prefixes[i] != 0) {
        const AttentionSequence prefix{0, prefixes[i], 0, blocks[i].table};
        subject.run(team, plan, {&prefix, 1}, 0, ignored);
      }
      const auto append = [&](std::vector<float>& to, const std::vector<float>& from,
                              std::size_t columns) {
        to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(prefixes[i] * columns),
                  from.end());
      };
      append(batch.q, subject.q, subject.columns());
      append(batch.k, subject.k, subject.kv_columns());
      append(batch.v, subject.v, subject.kv_columns());
      append(right, alone[i], subject.columns());
      sequences.push_back(
          {batch.q.size() / batch.columns() - fresh[i], fresh[i], prefixes[i], blocks[i].table});
    }
    std::vector<float> together;
    batch.run(team, plan, sequences, 0, together);
    EXPECT_TRUE(same_bits(together, right)) << threads << " threads";
  }
}

// Sequences that decode over the same blocks, some of them over more of the same ones than others,
// are as if each had blocks of its own.
TEST_P(AttentionTest, SharedBlocksDoNotShow) {
  struct Sharer {
    std::uint32_t of_all, of_some, tokens;  // shared tokens, and all
  };
  const std::vector<Sharer> sharers = {{64, 64, 65},  {64, 96, 97},  {64, 96, 120},
                                       {64, 64, 128}, {64, 96, 128}, {0, 0, 70},
                                       {64, 96, 110}, {64, 96, 150}, {64, 64, 96}};
  const Shape shape{6, 2, 32, 32};
  for (const KvDtype kv : {KvDtype::bf16, KvDtype::f32}) {
    std::vector<Subject> subjects;
    std::vector<Blocks> blocks;
    std::vector<float> right;
    std::vector<AttentionSequence> sequences;
    Subject batch(table(), Compute::bf16, kv, shape, 0, 0);
    for (std::uint32_t i = 0; i < sharers.size(); ++i) {
      const Sharer& sharer = sharers[i];
      Subject& subject =
          subjects.emplace_back(table(), Compute::bf16, kv, shape, sharer.tokens, 300 + 10 * i);
      Blocks& own = blocks.emplace_back(batch.geometry, sharer.tokens);
      const auto share = [&](std::size_t with, std::uint32_t tokens) {
        const std::size_t values = tokens * subject.kv_columns();
        std::copy_n(subjects[with].k.begin(), values, subject.k.begin());
        std::copy_n(subjects[with].v.begin(), values, subject.v.begin());
        std::copy_n(blocks[with].table.begin(), tokens / shape.block_tokens, own.table.begin());
      };
      if (i > 0) share(0, sharer.of_all);
      if (i > 1 && sharer.of_some > sharer.of_all) share(1, sharer.of_some);
      Team team(1);
      AttentionPlan plan(table(), Compute::bf16, batch.geometry, shape.heads, 1);
      const AttentionSequence all{0, sharer.tokens, 0, own.table};
      std::vector<float> alone;
      subject.run(team, plan, {&all, 1}, 0, alone);
      const auto append_last = [&](std::vector<float>& to, const std::vector<float>& from,
                                   std::size_t columns) {
        to.insert(to.end(), from.end() - static_cast<std::ptrdiff_t>(columns), from.end());
      };
      append_last(batch.q, subject.q, subject.columns());
      append_last(batch.k, subject.k, subject.kv_columns());
      append_last(batch.v, subject.v, subject.kv_columns());
      append_last(right, alone, subject.columns());
      sequences.push_back({i, 1, sharer.tokens - 1, own.table});
    }
    for (int threads = 1; threads <= 3; ++threads) {
      Team team(threads);
      AttentionPlan plan(table(), Compute::bf16, batch.geometry, shape.heads, threads);
      std::vector<float> together;
      batch.run(team, plan, sequences, 0, together);
      EXPECT_TRUE(same_bits(together, right)) << threads << " threads, " << to_string(kv);
    }
  }
}

// What lies behind a token in its block is never seen, also where it is not zero.
TEST_P(AttentionTest, LaterTokensOfABlockAreNotSeen) {
  const Shape shape{3, 1, 64, 32};
  Subject subject(table(), Compute::bf16, KvDtype::bf16, shape, 50, 3);
  const std::vector<float> whole = subject.attend({50}, 1);
  Blocks blocks(subject.geometry, 50);
  Team team(1);
  AttentionPlan plan(table(), Compute::bf16, subject.geometry, shape.heads, 1);
  // All 50 tokens are stored; then the last is computed again, at position 36.
  const AttentionSequence all{0, 50, 0, blocks.table};
  std::vector<float> first, second;
  subject.run(team, plan, {&all, 1}, 0, first);
  const AttentionSequence again{0, 1, 36, blocks.table};
  subject.run(team, plan, {&again, 1}, 36, second);
  const std::size_t columns = subject.columns();
  EXPECT_TRUE(same_bits(second, std::span(whole).subspan(36 * columns, columns)));
}

TEST_P(AttentionTest, StoresTheTilesOfTheLayout) {
  for (const KvDtype kv : {KvDtype::bf16, KvDtype::f32}) {
    const Shape shape{2, 2, 24, 64};
    Subject subject(table(), Compute::bf16, kv, shape, 70, 17);
    Blocks blocks(subject.geometry, 70);
    AttentionPlan plan(table(), Compute::bf16, subject.geometry, shape.heads, 1);
    const AttentionSequence all{0, 70, 0, blocks.table};
    plan.begin({&all, 1});
    const std::size_t columns = subject.kv_columns();
    plan.store_kv(1, subject.k.data(), columns, subject.v.data(), columns, {0, 70});
    const std::size_t padded = 32;
    for (std::size_t t = 0; t < 70; ++t) {
      for (std::size_t head = 0; head < 2; ++head) {
        const std::byte* block = blocks.table[t / 64];
        const auto chunk = static_cast<std::uint32_t>(t % 64 / 32);
        const auto kv_head = static_cast<std::uint32_t>(head);
        const std::byte* k_tile = block + subject.geometry.tile_offset(1, 0, kv_head, chunk);
        const std::byte* v_tile = block + subject.geometry.tile_offset(1, 1, kv_head, chunk);
        const std::size_t token = t % 32;
        for (std::size_t d = 0; d < 24; ++d) {
          const float k = subject.k[t * columns + head * 24 + d];
          const float v = subject.v[t * columns + head * 24 + d];
          if (kv == KvDtype::f32) {
            ASSERT_EQ(load_le<float>(k_tile + (d * 32 + token) * 4), k);
            ASSERT_EQ(load_le<float>(v_tile + (token * padded + d) * 4), v);
          } else {
            const auto bits = [](const std::byte* at) {
              return std::bit_cast<float>(std::uint32_t{load_le<std::uint16_t>(at)} << 16);
            };
            ASSERT_EQ(bits(k_tile + ((d / 2 * 32 + token) * 2 + d % 2) * 2), round_to_bf16(k));
            ASSERT_EQ(bits(v_tile + ((token / 2 * padded + d) * 2 + token % 2) * 2),
                      round_to_bf16(v));
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionTest, testing::ValuesIn(kernel_sets()), name_of);

TEST(SharedRuns, AreFoundLevelByLevel) {
  std::vector<std::byte> memory(64);
  const auto table = [&](std::initializer_list<int> blocks) {
    std::vector<std::byte*> addresses;
    for (const int block : blocks) addresses.push_back(&memory[static_cast<std::size_t>(block)]);
    return addresses;
  };
  const std::vector<std::vector<std::byte*>> owned = {
      table({1, 2, 3, 4}), table({1, 2, 3, 5, 6}), table({9, 2, 3}), table({1, 2, 3, 5, 6, 7}),
      table({1, 2}),       table({1, 2, 3, 5, 8}), table({}),        table({9, 3}),
      table({1, 2, 3, 4})};
  const std::vector<std::span<std::byte* const>> tables(owned.begin(), owned.end());
  using Run = std::tuple<std::vector<std::uint32_t>, std::size_t, std::size_t>;
  const auto found = [&](std::size_t least) {
    std::vector<std::vector<Run>> levels;
    for (const auto& runs : find_shared_runs(tables, least)) {
      levels.emplace_back();
      for (const SharedRun& run : runs)
        levels.back().emplace_back(run.sequences, run.first_block, run.last_block);
    }
    return levels;
  };
  using Levels = std::vector<std::vector<Run>>;
  EXPECT_EQ(found(3), (Levels{{Run{{0, 1, 3, 4, 5, 8}, 0, 2}},
                              {Run{{0, 1, 3, 5, 8}, 2, 3}},
                              {Run{{1, 3, 5}, 3, 4}}}));
  EXPECT_EQ(found(2), (Levels{{Run{{0, 1, 3, 4, 5, 8}, 0, 2}, Run{{2, 7}, 0, 1}},
                              {Run{{0, 1, 3, 5, 8}, 2, 3}},
                              {Run{{0, 8}, 3, 4}, Run{{1, 3, 5}, 3, 4}},
                              {Run{{1, 3}, 4, 5}}}));
  EXPECT_EQ(found(7), Levels{});
}

TEST(AttentionFamilyTest, EqualNumericsGiveEqualBits) {
  for (const Compute compute : {Compute::bf16, Compute::f32}) {
    std::map<std::string, std::vector<float>> of_numerics;
    for (const KernelSet& set : kernel_sets()) {
      Subject subject(*set.table, compute, KvDtype::bf16, {9, 3, 64, 32}, 100, 40);
      const std::vector<float> result = subject.attend({60, 61, 100}, 2);
      const auto [it, added] = of_numerics.emplace(set.table->numerics(compute), result);
      EXPECT_TRUE(same_bits(it->second, result)) << set.name;
    }
  }
}

}  // namespace
}  // namespace terrace::inference::test
