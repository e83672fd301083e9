#include "client/cli/top.h"

#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/bytes.h"
#include "core/tier.h"

namespace terrace::cli {
namespace {

using nlohmann::json;

constexpr std::size_t fullness_bar_characters = 20;

std::uint64_t figure(const json& from, const char* name) {
  const auto found = from.find(name);
  return found == from.end() || !found->is_number() ? 0 : found->get<std::uint64_t>();
}

std::string bar(std::uint64_t used, std::uint64_t capacity) {
  const auto filled = capacity == 0 ? 0
                                    : static_cast<std::size_t>(static_cast<double>(used) /
                                                               static_cast<double>(capacity) *
                                                               fullness_bar_characters);
  const std::size_t shown = std::min(filled, fullness_bar_characters);
  return "[" + std::string(shown, '#') + std::string(fullness_bar_characters - shown, '.') + "]";
}

// A daemon that was started anew counts from nothing.
double rate(const json& before, const json& now, const char* name, double seconds) {
  const std::uint64_t from = figure(before, name), to = figure(now, name);
  return to < from ? 0 : static_cast<double>(to - from) / seconds;
}

constexpr std::pair<const char*, const char*> live_counters[] = {{"hits", "hits_per_s"},
                                                                 {"misses", "misses_per_s"},
                                                                 {"promotions", "promotions_per_s"},
                                                                 {"demotions", "demotions_per_s"},
                                                                 {"evictions", "evictions_per_s"}};

}  // namespace

Status print_top_json(const std::string& before_text, const std::string& now_text, double seconds,
                      std::ostream& out) {
  try {
    const json before = json::parse(before_text), now = json::parse(now_text);
    nlohmann::ordered_json sample = {{"seconds", seconds}};
    for (const char* name : {"sessions", "leases", "pending_blocks", "pins", "quarantined_slots"})
      sample[name] = figure(now, name);
    const json &tiers_before = before.at("tiers"), &tiers = now.at("tiers");
    for (const Tier tier : all_tiers) {
      const char* const tier_name = to_string(tier);
      const auto found = tiers.find(tier_name);
      if (found == tiers.end()) continue;
      nlohmann::ordered_json one;
      for (const char* name : {"used_bytes", "capacity_bytes", "blocks"})
        one[name] = figure(*found, name);
      const json& old = tiers_before.contains(tier_name) ? tiers_before.at(tier_name) : *found;
      for (const auto& [counter, name] : live_counters)
        one[name] = rate(old, *found, counter, seconds);
      sample["tiers"][tier_name] = std::move(one);
    }
    out << sample.dump() << "\n";
    return {};
  } catch (const json::exception&) {
    return Status(StatusCode::internal, "terraced gave an answer that makes no sense");
  }
}

Status print_top(const std::string& before_text, const std::string& now_text, double seconds,
                 std::ostream& out) {
  try {
    const json before = json::parse(before_text), now = json::parse(now_text);
    const json &tiers_before = before.at("tiers"), &tiers = now.at("tiers");
    out << "sessions " << figure(now, "sessions") << ", leases " << figure(now, "leases")
        << ", being computed " << figure(now, "pending_blocks") << ", pins " << figure(now, "pins")
        << ", quarantined slots " << figure(now, "quarantined_slots") << "\n";
    out << std::left << std::setw(8) << "tier" << std::setw(fullness_bar_characters + 4) << "full"
        << std::right << std::setw(10) << "used" << std::setw(10) << "of" << std::setw(10)
        << "blocks" << std::setw(9) << "hits/s" << std::setw(10) << "misses/s" << std::setw(8)
        << "up/s" << std::setw(8) << "down/s" << std::setw(10) << "evicted/s"
        << "\n";
    for (const Tier tier : all_tiers) {
      const auto found = tiers.find(to_string(tier));
      if (found == tiers.end()) continue;
      const json& one = *found;
      const json& old =
          tiers_before.contains(to_string(tier)) ? tiers_before.at(to_string(tier)) : one;
      const std::uint64_t used = figure(one, "used_bytes"),
                          capacity = figure(one, "capacity_bytes");
      if (capacity == 0 && figure(one, "blocks") == 0 && figure(one, "hits") == 0) continue;
      out << std::left << std::setw(8) << to_string(tier) << std::setw(fullness_bar_characters + 4)
          << bar(used, capacity) << std::right << std::setw(10) << format_bytes(used)
          << std::setw(10) << format_bytes(capacity) << std::setw(10) << figure(one, "blocks")
          << std::fixed << std::setprecision(1) << std::setw(9) << rate(old, one, "hits", seconds)
          << std::setw(10) << rate(old, one, "misses", seconds) << std::setw(8)
          << rate(old, one, "promotions", seconds) << std::setw(8)
          << rate(old, one, "demotions", seconds) << std::setw(10)
          << rate(old, one, "evictions", seconds) << "\n";
    }
    return {};
  } catch (const json::exception&) {
    return Status(StatusCode::internal, "terraced gave an answer that makes no sense");
  }
}

}  // namespace terrace::cli
