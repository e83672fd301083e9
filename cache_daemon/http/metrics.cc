#include "cache_daemon/http/metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <fstream>

#include "cache_daemon/http/metric_list.h"

namespace terrace::daemon {
namespace {

using storage::CacheStats;
using storage::TierStats;

double as_double(std::uint64_t number) { return static_cast<double>(number); }

// One figure of each tier that is there.
void add_tiers(MetricList& metrics, const CacheStats& stats, std::uint64_t TierStats::*figure) {
  // What Redis may hold, and does, is known there.
  const bool in_bytes = figure == &TierStats::capacity_bytes || figure == &TierStats::used_bytes;
  for (const Tier tier : all_tiers) {
    const TierStats& one = stats.tiers[static_cast<std::size_t>(tier)];
    const bool is_there =
        tier == Tier::redis ? stats.remote.has_value() && !in_bytes : one.capacity_bytes > 0;
    if (is_there) metrics.add(as_double(one.*figure), {{"tier", to_string(tier)}});
  }
}

void list_tiers(MetricList& metrics, const CacheStats& stats) {
  const auto gauges = [&](const char* name, const char* help, std::uint64_t TierStats::*figure) {
    metrics.gauges(name, help);
    add_tiers(metrics, stats, figure);
  };
  const auto counters = [&](const char* name, const char* help, std::uint64_t TierStats::*figure) {
    metrics.counters(name, help);
    add_tiers(metrics, stats, figure);
  };
  gauges("terrace_tier_capacity_bytes", "What the tier may hold.", &TierStats::capacity_bytes);
  gauges("terrace_tier_used_bytes", "What of the capacity is taken.", &TierStats::used_bytes);
  gauges("terrace_tier_blocks",
         "Blocks with a copy in the tier; of Redis those believed to be there.",
         &TierStats::blocks);
  counters("terrace_tier_hits_total", "Blocks acquired whose fastest copy was here.",
           &TierStats::hits);
  counters("terrace_tier_misses_total",
           "Blocks acquired or asked room for that were not here, and loads from here that failed.",
           &TierStats::misses);
  counters("terrace_tier_promotions_total", "Blocks copied from here upwards.",
           &TierStats::promotions);
  counters("terrace_tier_demotions_total", "Blocks copied from here downwards.",
           &TierStats::demotions);
  counters("terrace_tier_evictions_total", "Copies dropped from here to make room.",
           &TierStats::evictions);
  counters("terrace_tier_failures_total", "Reads, writes and copies from or to here that failed.",
           &TierStats::failures);
  counters("terrace_tier_corruptions_total", "Copies dropped from here that did not verify.",
           &TierStats::corruptions);
}

void list_blocks(MetricList& metrics, const CacheStats& stats) {
  metrics.gauge("terrace_spaces", "Spaces that are known.", stats.spaces);
  metrics.gauge("terrace_known_blocks", "Blocks in the catalog.", stats.known_blocks);
  metrics.gauge("terrace_holes", "Blocks without a copy here, known because of their descendants.",
                stats.holes);
  metrics.gauge("terrace_catalog_bytes", "Memory of the catalog, tokens included.",
                stats.catalog_bytes);
  metrics.gauge("terrace_catalog_token_bytes", "Memory of the catalog's tokens.",
                stats.catalog_token_bytes);
  metrics.gauge("terrace_pending_blocks", "Blocks that some session is computing.",
                stats.pending_blocks);
  metrics.gauge("terrace_pins", "Pinned prefixes.", stats.pins);
  metrics.gauge("terrace_pinned_bytes", "What pins hold.", stats.pinned_bytes);
  metrics.gauge("terrace_pin_capacity_bytes", "What pins may hold.", stats.pin_capacity_bytes);
  metrics.counters("terrace_misses_total",
                   "Blocks that a worker asked room for, by why it had to compute them.");
  for (std::size_t i = 0; i < storage::miss_reasons; ++i)
    metrics.add(as_double(stats.misses_by_reason[i]), {{"reason", storage::miss_reason_names[i]}});
  metrics.counter("terrace_declined_loads_total",
                  "Blocks left out of an acquire because computing them is faster.",
                  stats.declined_loads);
  metrics.counter("terrace_declined_writes_total",
                  "Sealed blocks not written to disk at once because they were used only once.",
                  stats.declined_writes);
  metrics.gauges("terrace_disk_written_bytes",
                 "What was written to disk in this hour and this day of UTC.");
  metrics.add(as_double(stats.disk_hour_bytes), {{"period", "hour"}});
  metrics.add(as_double(stats.disk_day_bytes), {{"period", "day"}});
}

void list_clients(MetricList& metrics, const Context& context, const CacheStats& stats) {
  metrics.gauge("terrace_connections", "Connections to the Unix socket.", context.connections);
  metrics.gauge("terrace_sessions", "Sessions, those without a connection included.",
                stats.sessions);
  metrics.gauge("terrace_leases", "Leases.", stats.leases);
  metrics.gauge("terrace_reserved_slots", "Slots that a session may write to.",
                stats.reserved_slots);
  metrics.gauge("terrace_quarantined_slots",
                "Slots that nobody may use because somebody could still touch them.",
                stats.quarantined_slots);
  metrics.gauge("terrace_waiting_acquires", "Acquires that wait for what others compute.",
                stats.waiting_acquires);
  metrics.counter("terrace_awaited_blocks_total",
                  "Blocks that came while somebody waited for them.", stats.awaited_blocks);
  metrics.counter("terrace_expired_waits_total", "Waits for others that ended at their limit.",
                  stats.expired_waits);
  metrics.histograms("terrace_call_duration_seconds",
                     "From when the daemon has read a call until it has its answer.");
  for (const CallKind kind : all_call_kinds)
    metrics.add(context.calls[kind].latency, {{"call", to_string(kind)}});
  metrics.counters("terrace_unanswered_calls_total",
                   "Calls that ended in an error or whose client went away.");
  for (const CallKind kind : all_call_kinds)
    metrics.add(as_double(context.calls[kind].unanswered), {{"call", to_string(kind)}});
}

// Names of tenants come from the configuration: there are few.
void list_tenants(MetricList& metrics, const CacheStats& stats) {
  if (stats.tenants.empty()) return;
  metrics.gauges("terrace_tenant_used_bytes", "What a tenant takes of a tier.");
  for (const storage::TenantStats& tenant : stats.tenants)
    for (std::size_t i = 0; i < tenant.used_bytes.size(); ++i)
      metrics.add(as_double(tenant.used_bytes[i]),
                  {{"tenant", tenant.name}, {"tier", to_string(static_cast<Tier>(i))}});
  metrics.gauges("terrace_tenant_quota_bytes", "What he may take, where that is limited.");
  for (const storage::TenantStats& tenant : stats.tenants)
    for (std::size_t i = 0; i < tenant.quota_bytes.size(); ++i)
      if (tenant.quota_bytes[i] != storage::no_quota)
        metrics.add(as_double(tenant.quota_bytes[i]),
                    {{"tenant", tenant.name}, {"tier", to_string(static_cast<Tier>(i))}});
}

void list_redis(MetricList& metrics, const storage::RemoteStats& redis) {
  const storage::RemoteUsage& usage = redis.usage;
  metrics.gauges("terrace_redis_breaker", "1 for the state of the breaker, 0 for the others.");
  for (const auto breaker :
       {storage::Breaker::closed, storage::Breaker::open, storage::Breaker::half_open})
    metrics.add(usage.breaker == breaker ? 1 : 0, {{"state", storage::to_string(breaker)}});
  metrics.counters("terrace_redis_requests_total", "Requests by how they ended.");
  const std::pair<const char*, std::uint64_t> outcomes[] = {
      {"found", usage.found},     {"absent", usage.absent},       {"written", usage.written},
      {"corrupt", usage.corrupt}, {"refused", usage.refused},     {"timed_out", usage.timed_out},
      {"failed", usage.failed},   {"not_asked", usage.not_asked}, {"rejected", usage.rejected}};
  for (const auto& [outcome, count] : outcomes)
    metrics.add(as_double(count), {{"outcome", outcome}});
  metrics.gauge("terrace_redis_connections", "Open connections.", usage.connections);
  metrics.gauge("terrace_redis_in_flight_bytes", "Payload under way.", usage.in_flight_bytes);
  metrics.gauges("terrace_redis_in_flight", "Requests of the cache under way.");
  metrics.add(as_double(redis.lookups_in_flight), {{"kind", "lookup"}});
  metrics.add(as_double(redis.reads_in_flight), {{"kind", "read"}});
  metrics.add(as_double(redis.writes_in_flight), {{"kind", "write"}});
  metrics.counter("terrace_redis_reconnects_total", "Connections made anew.", usage.reconnects);
  metrics.counter("terrace_redis_redirections_total", "MOVED and ASK answers.", usage.redirections);
  metrics.counter("terrace_redis_lookups_total", "Questions which of some keys are there.",
                  redis.lookups);
  metrics.counter("terrace_redis_shared_lookups_total", "Of those, such as were under way already.",
                  redis.shared_lookups);
  metrics.counter("terrace_redis_late_lookups_total",
                  "Of those, such as were not answered in time.", redis.late_lookups);
  metrics.counter("terrace_redis_cut_loads_total",
                  "Acquires that went on without what came too late.", redis.cut_loads);
  metrics.gauge("terrace_redis_queued_prefixes", "Prefixes that wait to be written.",
                redis.queued_prefixes);
  metrics.counter("terrace_redis_dropped_prefixes_total", "Prefixes forgotten from a full queue.",
                  redis.dropped_prefixes);
  metrics.counter("terrace_redis_already_there_total",
                  "Blocks that other hosts had written before.", redis.already_there);
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size_pages = 0, resident_pages = 0;
  file >> size_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void list_process(MetricList& metrics, const Context& context) {
  metrics.gauges("terrace_build_info", "1, with the version of the daemon.");
  metrics.add(1, {{"version", version}});
  const std::chrono::duration<double> uptime = std::chrono::steady_clock::now() - context.started;
  metrics.gauge("terrace_uptime_seconds", "Since the end of recovery.", uptime.count());
  metrics.gauge("terrace_draining", "1 while the daemon writes what only memory holds, to stop.",
                context.draining ? 1 : 0);
  metrics.counter("process_cpu_seconds_total", "Time on CPUs, of all threads.", cpu_seconds());
  metrics.gauge("process_resident_memory_bytes", "Resident memory, arenas included.",
                resident_bytes());
  metrics.gauge("process_start_time_seconds", "When the daemon was ready, in seconds since 1970.",
                static_cast<double>(context.started_unix_ms) / 1e3);
}

}  // namespace

std::string metrics_text(const Context& context) {
  const CacheStats stats = context.cache.stats();
  MetricList metrics;
  list_process(metrics, context);
  list_tiers(metrics, stats);
  list_blocks(metrics, stats);
  list_clients(metrics, context, stats);
  list_tenants(metrics, stats);
  if (stats.remote) list_redis(metrics, *stats.remote);
  return metrics.text();
}

}  // namespace terrace::daemon
