#include "bench/attention.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iomanip>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <random>

#include "bench/environment.h"
#include "bench/samples.h"
#include "inference/cpu/attention.h"
#include "inference/model/private_kv.h"

namespace terrace::bench {

namespace {

using namespace terrace::inference;
using Steady = std::chrono::steady_clock;

// SmolLM2-135M.
constexpr std::uint32_t layers = 30, query_heads = 9, kv_heads = 3, head_dim = 64;
constexpr std::size_t query_width = query_heads * head_dim, kv_width = kv_heads * head_dim;
// More than the caches of a server's processor that one process may hope for.
constexpr std::size_t walked_bytes = std::size_t{64} << 20;

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Sequences of one prefix, each with a few tokens of its own, about to decode one more.
class SharingSequences {
 public:
  SharingSequences(const KvGeometry& geometry, Team& team, const KernelTable& kernels,
                   Compute compute, std::size_t count, std::uint32_t shared_tokens,
                   std::uint32_t own_tokens)
      : shared_(geometry), q_(random_values(count * query_width, 1)) {
    const std::uint32_t tokens = shared_tokens + own_tokens;
    AttentionPlan plan(kernels, compute, geometry, query_heads, team.threads());
    if (!shared_.reserve(shared_tokens).ok()) throw std::bad_alloc();
    store(plan, shared_.blocks(), 0, shared_tokens, 100);
    for (std::size_t i = 0; i < count; ++i) {
      own_.push_back(std::make_unique<PrivateKv>(geometry));
      if (!own_[i]->reserve(own_tokens).ok()) throw std::bad_alloc();
      std::vector<std::byte*>& table = tables_.emplace_back();
      table.assign(shared_.blocks().begin(), shared_.blocks().end());
      table.insert(table.end(), own_[i]->blocks().begin(), own_[i]->blocks().end());
      store(plan, table, shared_tokens, own_tokens, static_cast<unsigned>(102 + 2 * i));
    }
    for (std::size_t i = 0; i < count; ++i) sequences_.push_back({i, 1, tokens - 1, tables_[i]});
  }

  std::span<const AttentionSequence> sequences() const { return sequences_; }
  const std::vector<float>& queries() const { return q_; }

 private:
  // Any keys and values will do.
  static void store(AttentionPlan& plan, std::span<std::byte* const> table, std::uint32_t begin,
                    std::uint32_t tokens, unsigned seed) {
    const auto k = random_values(tokens * kv_width, seed),
               v = random_values(tokens * kv_width, seed + 1);
    const AttentionSequence sequence{0, tokens, begin, table};
    plan.begin({&sequence, 1});
    for (std::uint32_t layer = 0; layer < layers; ++layer)
      plan.store_kv(layer, k.data(), kv_width, v.data(), kv_width, {0, tokens});
  }

  PrivateKv shared_;
  std::vector<std::unique_ptr<PrivateKv>> own_;
  std::vector<std::vector<std::byte*>> tables_;
  std::vector<AttentionSequence> sequences_;
  std::vector<float> q_;
};

// One way to attend, and what it took and gave.
struct Way {
  AttentionPlan plan;
  PreparedRows out;
  Samples us;

  void step(Team& team, const SharingSequences& subject) {
    const auto begin = Steady::now();
    plan.begin(subject.sequences());
    team.run([&](TeamMember member) {
      for (std::uint32_t layer = 0; layer < layers; ++layer) {
        plan.attend(member, layer, subject.queries().data(), query_width, out);
        member.barrier();
      }
    });
    us.add(std::chrono::duration<double, std::micro>(Steady::now() - begin).count());
  }
};

struct Point {
  std::size_t sequences = 0;
  std::uint32_t shared_tokens = 0;
  double one_phase_us = 0, two_phase_us = 0;
  double ratio() const { return one_phase_us / two_phase_us; }
};

// Nothing if the two ways differ.
std::optional<Point> measure(const AttentionOptions& options, Team& team, std::size_t count,
                             std::uint32_t shared_tokens) {
  const KernelTable& table = kernels(options.model.isa);
  const KvGeometry geometry{layers, kv_heads, head_dim, options.model.block_tokens,
                            options.model.kv};
  const SharingSequences subject(geometry, team, table, options.model.compute, count, shared_tokens,
                                 options.own_tokens);
  const auto way = [&](SharedPrefixes shared) {
    return Way{
        AttentionPlan(table, options.model.compute, geometry, query_heads, team.threads(), shared),
        PreparedRows(table, options.model.compute, query_width, count),
        {}};
  };
  Way one = way(SharedPrefixes::apart), two = way(SharedPrefixes::together);
  std::vector<std::uint64_t> walked(walked_bytes / sizeof(std::uint64_t));
  for (std::size_t i = 0; i < options.repetitions; ++i) {
    for (Way* each : {&one, &two}) {
      for (std::uint64_t& word : walked) ++word;
      each->step(team, subject);
    }
    for (std::size_t row = 0; row < count; ++row)
      if (std::memcmp(one.out.row(row), two.out.row(row),
                      query_width * operand_bytes(one.out.operand())) != 0)
        return std::nullopt;
  }
  return Point{count, shared_tokens, one.us.median(), two.us.median()};
}

}  // namespace

int run_attention(const AttentionOptions& options, std::ostream& out, std::ostream& err) {
  print_environment(out);
  Team team(options.model.threads);
  out << "one step of decoding, attention of " << layers << " layers, " << team.threads()
      << " threads, " << to_string(kernels(options.model.isa).isa) << ", " << options.own_tokens
      << " tokens of its own a sequence, caches cold\n"
      << "sequences  shared tokens  one phase us  two phases us  ratio\n";
  nlohmann::ordered_json points = nlohmann::json::array();
  nlohmann::ordered_json result = {{"bench", "attention"}};
  for (const std::size_t sequences : options.sequences) {
    for (const std::uint32_t shared_tokens : options.shared_tokens) {
      const auto point = measure(options, team, sequences, shared_tokens);
      if (!point) {
        err << "terrace-bench attention: two phases gave another result than one, at " << sequences
            << " sequences of " << shared_tokens << " shared tokens" << std::endl;
        return 1;
      }
      out << std::setw(9) << sequences << std::setw(15) << shared_tokens << std::fixed
          << std::setprecision(0) << std::setw(14) << point->one_phase_us << std::setw(15)
          << point->two_phase_us << std::setprecision(2) << std::setw(7) << point->ratio()
          << std::endl;
      points.push_back({{"sequences", sequences},
                        {"shared_tokens", shared_tokens},
                        {"one_phase_us", point->one_phase_us},
                        {"two_phase_us", point->two_phase_us},
                        {"ratio", point->ratio()}});
      if (sequences == 32 && shared_tokens == 2048) result["ratio_32x2048"] = point->ratio();
    }
  }
  result["points"] = std::move(points);
  result["threads"] = team.threads();
  result["isa"] = to_string(kernels(options.model.isa).isa);
  result["debug_build"] = is_debug_build();
  out << result.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
