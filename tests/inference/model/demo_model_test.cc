// The demo model against the golden answers: log-likelihoods, arg-maxima, logits and greedy
// continuations, by the rules and tolerances of golden/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "inference/model/sampler.h"
#include "tests/inference/model/golden.h"
#include "tests/inference/model/session.h"

namespace terrace::inference {
namespace {

struct Exactness {
  Isa isa;
  bool exact;  // F32 with F32 KV, else BF16 with BF16 KV

  double tolerance() const { return exact ? 1e-4 : 0.02; }
  double nll_tolerance() const { return exact ? 0.001 : 0.01; }
};

// Everything there is to say about a position from its logits.
double log_likelihood(std::span<const float> logits, Token token) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - highest);
  return logits[static_cast<std::size_t>(token)] - highest - std::log(sum);
}

class DemoModel : public testing::TestWithParam<Exactness> {
 protected:
  void SetUp() override {
    const auto path = demo_model_path();
    golden_ = golden_json("model_smollm2.json");
    if (!path || !golden_) GTEST_SKIP() << "no demo model or no golden files";
    const auto file = gguf::File::open(*path);
    ASSERT_TRUE(file) << file.error().to_string();
    const bool exact = GetParam().exact;
    model_ = load_or_fail(**file, {.compute = exact ? Compute::f32 : Compute::bf16,
                                   .kv = exact ? KvDtype::f32 : KvDtype::bf16,
                                   .isa = GetParam().isa});
    ASSERT_TRUE(model_);
    vocabulary_ = model_->config().vocabulary;
  }

  // The plain kernels take their time; where others are there, few prompts and the tests of bit
  // identity cover them.
  static bool slow() { return GetParam().isa == Isa::portable && best_isa() != Isa::portable; }

  // Goes through a prompt in pieces, so that the logits of all tokens need not be held at once.
  // The first `known` tokens are already in the session: their share of the sum is `known_sum`.
  struct Walk {
    double log_likelihood_sum = 0;
    std::map<std::size_t, Token> argmax;
    std::vector<float> last;
  };
  Walk walk(Session& session, std::span<const Token> ids, const Walk& known) {
    constexpr std::size_t piece = 128;
    Walk result = known;
    for (std::size_t at = session.position(); at < ids.size(); at += piece) {
      const std::size_t count = std::min(piece, ids.size() - at);
      const auto logits = session.feed_all(ids.subspan(at, count));
      for (std::size_t i = 0; i < count; ++i) {
        const auto row = std::span(logits).subspan(i * vocabulary_, vocabulary_);
        result.argmax[at + i] = greedy_token(row);
        if (at + i + 1 < ids.size())
          result.log_likelihood_sum += log_likelihood(row, ids[at + i + 1]);
        else
          result.last.assign(row.begin(), row.end());
      }
    }
    return result;
  }

  // The logits at the end of the prompt; returns the bound below which a lead decides nothing.
  double check_last_logits(const nlohmann::json& entry, std::span<const float> last) {
    std::vector<double> actual, expected;
    for (const auto& top : entry.at("last_logits_top")) {
      actual.push_back(last[top.at(0).get<std::size_t>()]);
      expected.push_back(top.at(1).get<double>());
    }
    const double deviation = entry.at("last_logits_std").get<double>();
    const double rms = rms_difference(actual, expected);
    EXPECT_LT(rms / deviation, GetParam().tolerance());

    double mean = 0, squares = 0;
    for (const float logit : last) mean += logit / static_cast<double>(last.size());
    for (const float logit : last) squares += (logit - mean) * (logit - mean);
    // An offset of all logits changes no answer, so the rule above leaves it out; that it stays
    // near is a check on the rest of the vocabulary.
    const double offset_tolerance = 3 * GetParam().tolerance();
    EXPECT_NEAR(mean, entry.at("last_logits_mean").get<double>(), offset_tolerance * deviation);
    EXPECT_NEAR(std::sqrt(squares / static_cast<double>(last.size())), deviation,
                GetParam().tolerance() * deviation);
    return 6 * rms;
  }

  void check_prompt(const nlohmann::json& entry, const Walk& walk, double bound) {
    for (const auto& [position, choice] : entry.at("argmax_at").items()) {
      if (choice.at(1).get<double>() <= bound) continue;
      EXPECT_EQ(walk.argmax.at(std::stoul(position)), choice.at(0).get<Token>())
          << "at " << position;
    }
    const std::size_t predicted = walk.argmax.size() - 1;
    if (predicted == 0) return;
    const double excess = -walk.log_likelihood_sum -
                          entry.at("nll_mean").get<double>() * static_cast<double>(predicted);
    excess_ += excess;
    predicted_ += predicted;
    // The mean of a few tokens is as rough as they are few; BF16's is judged over all of them.
    if (GetParam().exact || predicted >= 100) {
      EXPECT_LT(std::abs(excess / static_cast<double>(predicted)), GetParam().nll_tolerance());
    }
  }

  void check_log_likelihood_of_all() const {
    ASSERT_GT(predicted_, 0u);
    EXPECT_LT(std::abs(excess_ / static_cast<double>(predicted_)), GetParam().nll_tolerance());
  }

  // Decodes token by token as far as the golden continuation is decided. Stops after `limit`.
  void check_decoding(const nlohmann::json& entry, Session& session, std::span<const float> last,
                      double bound, std::size_t limit) {
    const auto expected = entry.at("greedy_ids").get<std::vector<Token>>();
    const auto leads = entry.at("greedy_gap").get<std::vector<double>>();
    std::vector<float> logits(last.begin(), last.end());
    for (std::size_t i = 0; i < std::min(limit, expected.size()) && leads[i] >= bound; ++i) {
      ASSERT_EQ(greedy_token(logits), expected[i]) << "token " << i;
      logits = session.feed(std::span(&expected[i], 1));
    }
  }

  // The same rule in one call: the model is told the golden tokens, and must choose each of the
  // first `count` wherever its lead decides.
  void check_continuation(const nlohmann::json& entry, Session& session,
                          std::span<const float> last, double bound, std::size_t count = 48) {
    auto expected = entry.at("greedy_ids").get<std::vector<Token>>();
    expected.resize(count);
    const auto leads = entry.at("greedy_gap").get<std::vector<double>>();
    EXPECT_TRUE(leads[0] < bound || greedy_token(last) == expected[0]);
    const auto logits = session.feed_all(expected);
    for (std::size_t i = 1; i < expected.size(); ++i) {
      if (leads[i] < bound) continue;
      EXPECT_EQ(greedy_token(std::span(logits).subspan((i - 1) * vocabulary_, vocabulary_)),
                expected[i])
          << "token " << i;
    }
  }

  std::optional<nlohmann::json> golden_;
  std::unique_ptr<Llama> model_;
  std::size_t vocabulary_ = 0;
  // Over all prompts: the sum of differences of the negative log-likelihood, and of how many
  // tokens.
  double excess_ = 0;
  std::size_t predicted_ = 0;
};

TEST_P(DemoModel, ShortPrompts) {
  const std::set<std::string> few = {"count", "code"};
  for (const auto& [name, entry] : golden_->items()) {
    if (name.starts_with("handbook") || (slow() && !few.contains(name))) continue;
    SCOPED_TRACE(name);
    const auto ids = entry.at("prompt_ids").get<std::vector<Token>>();
    Session session(*model_);
    const Walk walk = this->walk(session, ids, {});
    const double bound = check_last_logits(entry, walk.last);
    check_prompt(entry, walk, bound);
    if (slow()) {
      check_continuation(entry, session, walk.last, bound, 16);
    } else if (name == "code") {
      check_decoding(entry, session, walk.last, bound, 48);
    } else {
      check_continuation(entry, session, walk.last, bound);
    }
  }
  check_log_likelihood_of_all();
}

TEST_P(DemoModel, LongPromptsOverOnePrefix) {
  if (slow()) GTEST_SKIP() << "a faster instruction set is there";
  Walk known;
  std::unique_ptr<Session> prefix;
  std::size_t shared = 0;
  for (const auto& [name, entry] : golden_->items()) {
    if (!name.starts_with("handbook")) continue;
    SCOPED_TRACE(name);
    const auto ids = entry.at("prompt_ids").get<std::vector<Token>>();
    Session session(*model_);
    if (!prefix) {
      // All four share the system prompt; it is gone through once, and copied.
      for (const auto& [other, its] : golden_->items()) {
        if (!other.starts_with("handbook") || other == name) continue;
        const auto theirs = its.at("prompt_ids").get<std::vector<Token>>();
        const auto common = static_cast<std::size_t>(
            std::mismatch(ids.begin(), ids.end(), theirs.begin(), theirs.end()).first -
            ids.begin());
        shared = shared == 0 ? common : std::min(shared, common);
      }
      ASSERT_GT(shared, 1000u);
      prefix = std::make_unique<Session>(*model_);
      // One token less, whose logits say how likely the first one that differs is.
      --shared;
      known = walk(*prefix, std::span(ids).first(shared), {});
      known.log_likelihood_sum += log_likelihood(known.last, ids[shared]);
    }
    session.copy_prefix(*prefix, shared);
    const Walk walk = this->walk(session, ids, known);
    const double bound = check_last_logits(entry, walk.last);
    check_prompt(entry, walk, bound);
    check_continuation(entry, session, walk.last, bound);
  }
}

std::vector<Exactness> all_exactness() {
  std::vector<Exactness> all;
  for (const Isa isa : supported_isas())
    for (const bool exact : {false, true}) all.push_back({isa, exact});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Every, DemoModel, testing::ValuesIn(all_exactness()),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param.isa)) +
                                  (instance.param.exact ? "_f32" : "_bf16");
                         });

}  // namespace
}  // namespace terrace::inference
