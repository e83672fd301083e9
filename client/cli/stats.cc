#include "client/cli/stats.h"

#include <cstdint>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/bytes.h"

namespace terrace::cli {
namespace {

using nlohmann::ordered_json;

Result<ordered_json> parse(const std::string& text) {
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object())
    return error(StatusCode::internal, "the daemon's answer is not a JSON object");
  return json;
}

std::uint64_t number(const ordered_json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_number() ? value->get<std::uint64_t>() : 0;
}

std::string text(const ordered_json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : "";
}

std::string format_duration(std::uint64_t seconds) {
  if (seconds < 60) return std::to_string(seconds) + " s";
  if (seconds < 3600)
    return std::to_string(seconds / 60) + " min " + std::to_string(seconds % 60) + " s";
  if (seconds < 86400)
    return std::to_string(seconds / 3600) + " h " + std::to_string(seconds / 60 % 60) + " min";
  return std::to_string(seconds / 86400) + " d " + std::to_string(seconds / 3600 % 24) + " h";
}

void print_tier(const std::string& name, const ordered_json& tier, std::ostream& out) {
  if (number(tier, "capacity_bytes") == 0) {
    out << std::left << std::setw(8) << name << "off\n";
    return;
  }
  out << std::left << std::setw(8) << name << std::right << std::setw(10)
      << format_bytes(number(tier, "used_bytes")) << std::setw(10)
      << format_bytes(number(tier, "capacity_bytes"));
  for (const char* counter : {"blocks", "hits", "misses", "evictions", "failures", "corruptions"})
    out << std::setw(12) << number(tier, counter);
  out << "\n";
}

}  // namespace

Status print_stats(const std::string& stats_json, std::ostream& out) {
  const Result<ordered_json> stats = parse(stats_json);
  if (!stats) return stats.error();
  out << "terraced " << text(*stats, "version") << ", process " << number(*stats, "pid") << ", up "
      << format_duration(number(*stats, "uptime_s")) << "\n";
  const auto tiers = stats->find("tiers");
  if (tiers != stats->end() && tiers->is_object()) {
    out << "\n"
        << std::left << std::setw(8) << "tier" << std::right << std::setw(10) << "used"
        << std::setw(10) << "capacity";
    for (const char* heading : {"blocks", "hits", "misses", "evicted", "failed", "corrupt"})
      out << std::setw(12) << heading;
    out << "\n";
    for (const auto& [name, tier] : tiers->items())
      if (tier.is_object()) print_tier(name, tier, out);
  }
  out << "\n";
  const std::pair<const char*, const char*> counters[] = {
      {"sessions", "sessions"},
      {"leases", "leases"},
      {"spaces", "spaces"},
      {"reserved_slots", "reserved slots"},
      {"pending_blocks", "pending blocks"},
      {"quarantined_slots", "quarantined slots"}};
  const char* separator = "";
  for (const auto& [key, name] : counters) {
    if (!stats->contains(key)) continue;
    out << separator << number(*stats, key) << " " << name;
    separator = ", ";
  }
  out << "\n";
  return {};
}

Status print_stats_json(const std::string& stats_json, std::ostream& out) {
  const Result<ordered_json> stats = parse(stats_json);
  if (!stats) return stats.error();
  out << stats->dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
  return {};
}

}  // namespace terrace::cli
