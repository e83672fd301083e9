#include "cache_daemon/http/history.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "cache_daemon/http/http_limits.h"
#include "core/clock.h"

namespace terrace::daemon {

void History::look(const Context& context) {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + history_interval;
  const storage::CacheStats stats = context.cache.stats();
  Sample sample;
  sample.unix_ms = SystemClock().unix_ms();
  for (const storage::TierStats& tier : stats.tiers) sample.hits += tier.hits;
  sample.misses = std::accumulate(stats.misses_by_reason.begin(), stats.misses_by_reason.end(),
                                  std::uint64_t{0});
  for (std::size_t i = 0; i < sample.used_bytes.size(); ++i)
    sample.used_bytes[i] = stats.tiers[i].used_bytes;
  samples_.push_back(sample);
  if (samples_.size() > history_samples) samples_.pop_front();
}

std::string History::json() const {
  using nlohmann::ordered_json;
  ordered_json samples = ordered_json::array();
  for (const Sample& sample : samples_)
    samples.push_back({{"unix_ms", sample.unix_ms},
                       {"hits", sample.hits},
                       {"misses", sample.misses},
                       {"device_bytes", sample.used_bytes[0]},
                       {"host_bytes", sample.used_bytes[1]},
                       {"disk_bytes", sample.used_bytes[2]}});
  return ordered_json{{"samples", std::move(samples)}}.dump();
}

}  // namespace terrace::daemon
