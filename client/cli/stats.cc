#include "client/cli/stats.h"

#include <cstdint>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/cli/text.h"
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

// `shared`: other hosts have it, too, and nobody here knows how full it is.
void print_tier(const std::string& name, const ordered_json& tier, bool shared, std::ostream& out) {
  if (!shared && number(tier, "capacity_bytes") == 0) {
    out << std::left << std::setw(8) << name << "off\n";
    return;
  }
  const auto bytes = [&](const char* key) {
    return shared ? std::string("-") : format_bytes(number(tier, key));
  };
  out << std::left << std::setw(8) << name << std::right << std::setw(10) << bytes("used_bytes")
      << std::setw(10) << bytes("capacity_bytes");
  for (const char* counter : {"blocks", "hits", "misses", "evictions", "failures", "corruptions"})
    out << std::setw(12) << number(tier, counter);
  out << "\n";
}

void print_redis(const ordered_json& redis, std::ostream& out) {
  const std::string breaker = text(redis, "breaker");
  out << "\nredis: "
      << (breaker == "open"        ? "off"
          : breaker == "half_open" ? "off, being tried again"
                                   : "on")
      << ", " << counted(number(redis, "connections"), "connection") << ", "
      << format_bytes(number(redis, "in_flight_bytes")) << " under way, "
      << counted(number(redis, "queued_prefixes"), "prefix") << " to be written\n";
  if (const std::string why = text(redis, "last_failure"); !why.empty())
    out << "redis: " << (breaker == "closed" ? "was off at " : "off since ")
        << format_utc(static_cast<std::int64_t>(number(redis, "failed_unix_ms"))) << ": "
        << printable(why) << "\n";
}

}  // namespace

Status print_stats(const std::string& stats_json, std::ostream& out) {
  const Result<ordered_json> stats = parse(stats_json);
  if (!stats) return stats.error();
  out << "terraced " << text(*stats, "version") << ", process " << number(*stats, "pid") << ", up "
      << format_duration(number(*stats, "uptime_s")) << "\n";
  const auto tiers = stats->find("tiers");
  const auto redis = stats->find("redis");
  const bool has_redis = redis != stats->end() && redis->is_object();
  if (tiers != stats->end() && tiers->is_object()) {
    out << "\n"
        << std::left << std::setw(8) << "tier" << std::right << std::setw(10) << "used"
        << std::setw(10) << "capacity";
    for (const char* heading : {"blocks", "hits", "misses", "evicted", "failed", "corrupt"})
      out << std::setw(12) << heading;
    out << "\n";
    for (const auto& [name, tier] : tiers->items())
      if (tier.is_object()) print_tier(name, tier, has_redis && name == "redis", out);
  }
  if (has_redis) print_redis(*redis, out);
  out << "\n";
  const std::pair<const char*, const char*> counters[] = {
      {"sessions", "session"},
      {"leases", "lease"},
      {"spaces", "space"},
      {"reserved_slots", "reserved slot"},
      {"pending_blocks", "pending block"},
      {"quarantined_slots", "quarantined slot"}};
  const char* separator = "";
  for (const auto& [key, name] : counters) {
    if (!stats->contains(key)) continue;
    out << separator << counted(number(*stats, key), name);
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
