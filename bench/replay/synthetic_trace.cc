#include "bench/replay/synthetic_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <numeric>
#include <queue>
#include <random>

namespace terrace::bench {

namespace {

using Blocks = std::vector<std::uint32_t>;

// Distributions of the standard library differ between implementations; these do not.
class Maker {
 public:
  Maker(std::uint64_t seed, std::size_t requests) : random_(seed), requests_(requests) {}

  double uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }
  std::size_t below(std::size_t limit) { return random_() % limit; }
  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return uniform() < probability; }
  double exponential(double mean) { return -mean * std::log(1 - uniform()); }
  // The median and how many times as much or as little is one standard deviation.
  double log_normal(double median, double spread) {
    const double normal =
        std::sqrt(-2 * std::log(1 - uniform())) * std::cos(6.283185307179586 * uniform());
    return median * std::exp(std::log(spread) * normal);
  }
  std::size_t log_normal_count(double median, double spread) {
    return 1 + static_cast<std::size_t>(log_normal(median, spread));
  }

  // `count` blocks that were never seen before, appended.
  void extend(Blocks& blocks, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) blocks.push_back(next_id_++);
  }
  Blocks fresh(std::size_t count) {
    Blocks blocks;
    extend(blocks, count);
    return blocks;
  }
  std::vector<Blocks> prompts(std::size_t count, std::size_t low, std::size_t high) {
    std::vector<Blocks> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(fresh(between(low, high)));
    return all;
  }
  Blocks with_tail(const Blocks& head, std::size_t low, std::size_t high) {
    Blocks blocks = head;
    extend(blocks, between(low, high));
    return blocks;
  }

  void add(Blocks blocks) { trace_.requests.push_back({std::move(blocks)}); }
  bool full() const { return trace_.requests.size() >= requests_; }
  std::size_t now() const { return trace_.requests.size(); }
  Trace take() {
    trace_.renumber();
    return std::move(trace_);
  }

 private:
  std::mt19937_64 random_;
  std::size_t requests_;
  std::uint32_t next_id_ = 0;
  Trace trace_;
};

// Rank r is drawn with a probability proportional to 1 / (r + 1)^exponent.
class Zipf {
 public:
  Zipf(std::size_t count, double exponent) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i)
      sums_.push_back(sum += std::pow(static_cast<double>(i + 1), -exponent));
  }
  std::size_t draw(Maker& maker) const {
    const double at = maker.uniform() * sums_.back();
    return static_cast<std::size_t>(std::ranges::upper_bound(sums_, at) - sums_.begin());
  }

 private:
  std::vector<double> sums_;
};

// Many system prompts of fixed popularity, each question asked once.
Trace shared_prompts(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  const Zipf zipf(2000, 0.9);
  const auto systems = maker.prompts(2000, 2, 20);
  while (!maker.full()) maker.add(maker.with_tail(systems[zipf.draw(maker)], 1, 4));
  return maker.take();
}

// The same, but which prompts are popular changes from time to time.
Trace phase_change(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  const Zipf zipf(2000, 1.0);
  auto systems = maker.prompts(2000, 2, 20);
  while (!maker.full()) {
    if (maker.now() % 4000 == 3999)
      for (std::size_t i = systems.size(); i > 1; --i)
        std::swap(systems[i - 1], systems[maker.below(i)]);
    maker.add(maker.with_tail(systems[zipf.draw(maker)], 1, 4));
  }
  return maker.take();
}

// What is popular moves on a little with each request: LRU's best case.
Trace sliding_window(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  std::vector<Blocks> systems;
  while (!maker.full()) {
    if (systems.empty() || maker.chance(0.15)) systems.push_back(maker.fresh(maker.between(4, 24)));
    const auto back = static_cast<std::size_t>(maker.exponential(120));
    const std::size_t at = systems.size() - 1 - std::min(back, systems.size() - 1);
    maker.add(maker.with_tail(systems[at], 1, 2));
  }
  return maker.take();
}

struct ChatHabits {
  double go_on = 0.6;         // chance of another turn
  double pause_median = 300;  // in requests
  double pause_spread = 3;
  double first_median = 6, first_spread = 2.5;  // blocks of a first prompt
  double turn_median = 2, turn_spread = 2;      // blocks a turn adds
};

// Conversations over a few system prompts. `habits(now)` may change with time.
template <typename Habits, typename Between>
Trace chats(std::uint64_t seed, std::size_t requests, Habits habits, Between between) {
  Maker maker(seed, requests);
  const Zipf zipf(50, 1.1);
  const auto systems = maker.prompts(50, 1, 8);
  struct Later {
    double when;
    Blocks blocks;
    bool operator<(const Later& other) const { return when > other.when; }
  };
  std::priority_queue<Later> later;
  while (!maker.full()) {
    if (between(maker)) continue;
    const ChatHabits now = habits(maker.now());
    Blocks blocks;
    if (!later.empty() && later.top().when <= static_cast<double>(maker.now())) {
      blocks = later.top().blocks;
      later.pop();
      maker.extend(blocks, maker.log_normal_count(now.turn_median, now.turn_spread));
    } else {
      blocks = systems[zipf.draw(maker)];
      maker.extend(blocks, maker.log_normal_count(now.first_median, now.first_spread));
    }
    if (maker.chance(now.go_on))
      later.push(
          {static_cast<double>(maker.now()) + maker.log_normal(now.pause_median, now.pause_spread),
           blocks});
    maker.add(std::move(blocks));
  }
  return maker.take();
}

constexpr auto nothing_between = [](Maker&) { return false; };

Trace steady_chats(std::uint64_t seed, std::size_t requests) {
  return chats(
      seed, requests, [](std::size_t) { return ChatHabits{}; }, nothing_between);
}

// Quick and long conversations by day, single questions and long pauses by night.
Trace drifting_chats(std::uint64_t seed, std::size_t requests) {
  return chats(
      seed, requests,
      [](std::size_t now) {
        ChatHabits habits;
        const double day = 0.5 + 0.5 * std::sin(static_cast<double>(now) * 6.2832 / 6000);
        habits.go_on = 0.2 + 0.6 * day;
        habits.pause_median = 60 + 1500 * (1 - day);
        habits.first_median = 3 + 12 * (1 - day);
        return habits;
      },
      nothing_between);
}

// Chats with bursts of long prompts that never come back.
Trace flooded_chats(std::uint64_t seed, std::size_t requests) {
  return chats(
      seed, requests, [](std::size_t) { return ChatHabits{}; },
      [](Maker& maker) {
        if (maker.now() % 2000 < 1700) return false;
        maker.add(maker.fresh(maker.between(20, 60)));
        return true;
      });
}

// The same prompts in the same order for ever: LRU has nothing of it until all fit.
Trace loops(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  const auto documents = maker.prompts(600, 8, 32);
  while (!maker.full()) maker.add(maker.with_tail(documents[maker.now() % documents.size()], 1, 1));
  return maker.take();
}

// All prompts are alike: no policy can know anything.
Trace uniform_prompts(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  const auto documents = maker.prompts(1500, 4, 16);
  while (!maker.full()) maker.add(maker.with_tail(documents[maker.below(documents.size())], 1, 1));
  return maker.take();
}

// What was used often is over; what was used once comes back, once: use counts mislead.
Trace fading_bursts(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  std::deque<Blocks> once;
  Blocks burst = maker.fresh(16);
  while (!maker.full()) {
    if (maker.now() % 24 == 0) burst = maker.fresh(maker.between(8, 40));
    if (maker.chance(0.5)) {
      maker.add(maker.with_tail(burst, 1, 2));
    } else if (once.size() > 400 && maker.chance(0.5)) {
      maker.add(std::move(once.front()));
      once.pop_front();
    } else {
      once.push_back(maker.fresh(maker.between(4, 16)));
      maker.add(once.back());
    }
  }
  return maker.take();
}

// First prompts that come back at once for a while, then only after long, and so on: what was
// learned is wrong after each change.
Trace flipping_habits(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  std::deque<Blocks> recent;
  while (!maker.full()) {
    const bool near = maker.now() / 2500 % 2 == 0;
    const bool again = recent.size() > 200 && maker.chance(0.5);
    if (again) {
      const std::size_t back = near ? maker.below(60) : 200 + maker.below(recent.size() - 200);
      maker.add(maker.with_tail(recent[recent.size() - 1 - back], 1, 1));
    } else {
      recent.push_back(maker.fresh(maker.between(4, 24)));
      if (recent.size() > 1500) recent.pop_front();
      maker.add(recent.back());
    }
  }
  return maker.take();
}

// Long and short prompts take turns in coming back: all that was learned turns wrong each time.
Trace turned_habits(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  std::deque<Blocks> long_ones, short_ones;
  while (!maker.full()) {
    const bool turned = maker.now() / 1000 % 2 == 1;
    auto& live = turned ? long_ones : short_ones;
    if (live.size() >= 400 && maker.chance(0.4)) {
      maker.add(live[live.size() - 1 - maker.below(400)]);
      continue;
    }
    const bool is_long = maker.chance(0.5);
    auto& made = is_long ? long_ones : short_ones;
    made.push_back(is_long ? maker.fresh(maker.between(16, 31)) : maker.fresh(maker.between(4, 7)));
    if (made.size() > 800) made.pop_front();
    maker.add(made.back());
  }
  return maker.take();
}

// Agents: each task calls the model over and over with a prompt that grows, several at a time.
Trace agents(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  const auto tools = maker.prompts(8, 4, 16);
  std::vector<Blocks> tasks;
  while (!maker.full()) {
    if (tasks.size() < 60 || maker.chance(0.01)) {
      tasks.push_back(maker.with_tail(tools[maker.below(tools.size())], 1, 8));
      maker.add(tasks.back());
      continue;
    }
    const std::size_t at = maker.below(tasks.size());
    maker.extend(tasks[at], maker.between(1, 3));
    maker.add(tasks[at]);
    if (maker.chance(0.05)) {
      tasks[at] = std::move(tasks.back());
      tasks.pop_back();
    }
  }
  return maker.take();
}

// Documents that are asked about a few times in a row, each with many branches.
Trace documents(std::uint64_t seed, std::size_t requests) {
  Maker maker(seed, requests);
  const Zipf zipf(3000, 0.6);
  const auto all = maker.prompts(3000, 8, 80);
  std::deque<std::size_t> open;
  while (!maker.full()) {
    if (open.size() < 40 || maker.chance(0.2)) open.push_back(zipf.draw(maker));
    if (open.size() > 40) open.pop_front();
    maker.add(maker.with_tail(all[open[maker.below(open.size())]], 1, 2));
  }
  return maker.take();
}

constexpr std::array traces{
    SyntheticTrace{"shared_prompts", "system prompts of fixed popularity", shared_prompts},
    SyntheticTrace{"phase_change", "popularity is dealt out anew at times", phase_change},
    SyntheticTrace{"sliding_window", "popularity moves on steadily", sliding_window},
    SyntheticTrace{"steady_chats", "conversations of several turns", steady_chats},
    SyntheticTrace{"drifting_chats", "conversations by day and by night", drifting_chats},
    SyntheticTrace{"flooded_chats", "conversations, and bursts of long single prompts",
                   flooded_chats},
    SyntheticTrace{"loops", "the same prompts in the same order", loops},
    SyntheticTrace{"uniform_prompts", "prompts drawn at random", uniform_prompts},
    SyntheticTrace{"fading_bursts", "what was used often does not come back", fading_bursts},
    SyntheticTrace{"flipping_habits", "short and long returns in turns", flipping_habits},
    SyntheticTrace{"turned_habits", "long and short prompts take turns in coming back",
                   turned_habits},
    SyntheticTrace{"agents", "tasks whose prompts grow call by call", agents},
    SyntheticTrace{"documents", "documents that are asked about for a while", documents},
};

}  // namespace

std::span<const SyntheticTrace> synthetic_traces() { return traces; }

}  // namespace terrace::bench
