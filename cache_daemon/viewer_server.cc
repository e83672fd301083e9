#include "cache_daemon/viewer_server.h"

#include <kj/debug.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cache_daemon/limits.h"
#include "cache_daemon/operator_answers.h"
#include "core/clock.h"
#include "protocol/descriptor.h"
#include "protocol/packed.h"

namespace terrace::daemon {
namespace {

using nlohmann::ordered_json;
using protocol::pack;

ordered_json tier_json(const storage::TierStats& tier) {
  return {{"capacity_bytes", tier.capacity_bytes},
          {"used_bytes", tier.used_bytes},
          {"blocks", tier.blocks},
          {"hits", tier.hits},
          {"misses", tier.misses},
          {"promotions", tier.promotions},
          {"demotions", tier.demotions},
          {"evictions", tier.evictions},
          {"failures", tier.failures},
          {"corruptions", tier.corruptions}};
}

// When the tier is on, and why it was off last.
ordered_json redis_json(const storage::RemoteStats& redis) {
  const storage::RemoteUsage& usage = redis.usage;
  return {{"breaker", storage::to_string(usage.breaker)},
          {"last_failure", usage.last_failure},
          {"failed_unix_ms", usage.failed_unix_ms},
          {"connections", usage.connections},
          {"in_flight_bytes", usage.in_flight_bytes},
          {"lookups_in_flight", redis.lookups_in_flight},
          {"reads_in_flight", redis.reads_in_flight},
          {"writes_in_flight", redis.writes_in_flight},
          {"lookups", redis.lookups},
          {"shared_lookups", redis.shared_lookups},
          {"late_lookups", redis.late_lookups},
          {"cut_loads", redis.cut_loads},
          {"queued_prefixes", redis.queued_prefixes},
          {"dropped_prefixes", redis.dropped_prefixes},
          {"already_there", redis.already_there},
          {"found", usage.found},
          {"absent", usage.absent},
          {"written", usage.written},
          {"corrupt", usage.corrupt},
          {"refused", usage.refused},
          {"timed_out", usage.timed_out},
          {"failed", usage.failed},
          {"not_asked", usage.not_asked},
          {"rejected", usage.rejected},
          {"reconnects", usage.reconnects},
          {"redirections", usage.redirections}};
}

void write_page(const storage::BlockPage& page,
                protocol::Viewer::ListBlocksResults::Builder results) {
  auto blocks = results.initBlocks(static_cast<unsigned>(page.blocks.size()));
  for (std::size_t i = 0; i < page.blocks.size(); ++i)
    write_block(page.blocks[i], blocks[static_cast<unsigned>(i)]);
  if (page.next) results.setNext(pack(*page.next));
}

}  // namespace

BlockKey read_key(capnp::Data::Reader from) {
  const auto key = protocol::unpack_key(from);
  KJ_REQUIRE(key.has_value(), "a key must have 32 bytes");
  return *key;
}

// What the cache refuses, as the caller's library reads it.
kj::Exception refusal(const Status& status) {
  const auto type = status.code() == StatusCode::resource_exhausted
                        ? kj::Exception::Type::OVERLOADED
                        : kj::Exception::Type::FAILED;
  return {type, __FILE__, __LINE__, kj::heapString(status.message().c_str())};
}

void write_block(const storage::BlockInfo& from, protocol::BlockInfo::Builder to) {
  to.setSpace(pack(from.space));
  to.setKey(pack(from.key));
  to.setParent(pack(from.parent));
  to.setDepth(from.depth);
  to.setTokens(pack(std::span(from.tokens)));
  std::uint8_t tiers = 0;
  for (std::size_t i = 0; i < tier_count; ++i)
    tiers = static_cast<std::uint8_t>(tiers | (from.tiers[i] ? 1u << i : 0u));
  to.setTiers(tiers);
  to.setHolders(from.holders);
  to.setRecency(from.recency);
  to.setBytes(from.bytes);
  to.setUses(static_cast<std::uint8_t>(std::min<std::uint32_t>(from.uses, UINT8_MAX)));
  to.setCreatedUnixMs(from.created_unix_ms);
}

void write_pin(const storage::PinInfo& from, protocol::PinInfo::Builder to) {
  to.setKey(pack(from.key));
  to.setSpace(pack(from.space));
  to.setTier(from.tier ? static_cast<std::uint8_t>(*from.tier) : protocol::ANY_TIER);
  to.setExpiresUnixMs(from.expires_unix_ms);
  to.setBlocks(from.blocks);
  to.setBytes(from.bytes);
  to.setWhole(from.whole);
}

bool ViewerServer::may_see_space(const BlockKey& digest) const {
  if (!tenant_) return true;
  const auto id = context_.cache.find_space(digest);
  return id && context_.cache.space(*id)->tenant == *tenant_;
}

bool ViewerServer::may_see_block(const BlockKey& key) const {
  if (!tenant_) return true;
  const storage::BlockPage page = context_.cache.list(key, 1);
  return !page.blocks.empty() && page.blocks.front().key == key &&
         may_see_space(page.blocks.front().space);
}

storage::SpaceId ViewerServer::require_space(const BlockKey& digest) const {
  const auto space = context_.cache.find_space(digest);
  if (!space || !may_see_space(digest))
    kj::throwFatalException(refusal({StatusCode::not_found, "there is no space " + digest.hex()}));
  return *space;
}

std::string stats_json(const Context& context) {
  const storage::CacheStats stats = context.cache.stats();
  const auto uptime =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - context.started);
  ordered_json tiers;
  for (const Tier tier : all_tiers)
    tiers[to_string(tier)] = tier_json(stats.tiers[static_cast<std::size_t>(tier)]);
  ordered_json tenants = ordered_json::array();
  for (const storage::TenantStats& tenant : stats.tenants) {
    ordered_json one = {{"name", tenant.name}};
    for (std::size_t i = 0; i < tenant.used_bytes.size(); ++i) {
      ordered_json& tier = one[to_string(static_cast<Tier>(i))];
      tier["used_bytes"] = tenant.used_bytes[i];
      if (tenant.quota_bytes[i] != storage::no_quota) tier["quota_bytes"] = tenant.quota_bytes[i];
    }
    tenants.push_back(std::move(one));
  }
  ordered_json misses;
  for (std::size_t i = 0; i < storage::miss_reasons; ++i)
    misses[storage::miss_reason_names[i]] = stats.misses_by_reason[i];
  ordered_json json = {{"boot_id", context.boot_id},
                       {"version", version},
                       {"pid", ::getpid()},
                       {"uptime_s", uptime.count()},
                       {"connections", context.connections},
                       {"sessions", stats.sessions},
                       {"leases", stats.leases},
                       {"reserved_slots", stats.reserved_slots},
                       {"quarantined_slots", stats.quarantined_slots},
                       {"pending_blocks", stats.pending_blocks},
                       {"holes", stats.holes},
                       {"expired_blocks", stats.expired_blocks},
                       {"declined_loads", stats.declined_loads},
                       {"waiting_acquires", stats.waiting_acquires},
                       {"awaited_blocks", stats.awaited_blocks},
                       {"expired_waits", stats.expired_waits},
                       {"declined_writes", stats.declined_writes},
                       {"pins", stats.pins},
                       {"pinned_bytes", stats.pinned_bytes},
                       {"pin_capacity_bytes", stats.pin_capacity_bytes},
                       {"disk_hour_bytes", stats.disk_hour_bytes},
                       {"disk_day_bytes", stats.disk_day_bytes},
                       {"spaces", stats.spaces},
                       {"misses", misses},
                       {"tiers", tiers},
                       {"tenants", tenants}};
  if (stats.remote) json["redis"] = redis_json(*stats.remote);
  // What a server said is not always text.
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

kj::Promise<void> ViewerServer::stats(StatsContext call) {
  // Even sums tell what others are doing.
  if (tenant_)
    return refusal({StatusCode::failed_precondition,
                    "figures of the whole daemon are not for logins with a tenant"});
  call.getResults().setJson(stats_json(context_));
  return kj::READY_NOW;
}

kj::Promise<void> ViewerServer::listBlocks(ListBlocksContext call) {
  const auto params = call.getParams();
  BlockKey from;
  if (params.getFrom().size() > 0) from = read_key(params.getFrom());
  const std::size_t limit = std::clamp<std::size_t>(params.getLimit(), 1, max_blocks_per_page);
  auto page = std::make_shared<storage::BlockPage>();
  return list_visible(from, limit, page).then([call, page]() mutable {
    write_page(*page, call.getResults());
  });
}

// Keys of others must not be told either, as where to go on: they confirm a guess of what is behind
// them. So it goes on here until the next own one, some blocks a turn.
kj::Promise<void> ViewerServer::list_visible(BlockKey from, std::size_t limit,
                                             std::shared_ptr<storage::BlockPage> page) {
  if (!tenant_) {
    *page = context_.cache.list(from, limit);
    return kj::READY_NOW;
  }
  const storage::BlockPage all = context_.cache.list(from, max_blocks_per_page);
  for (const storage::BlockInfo& block : all.blocks) {
    if (!may_see_space(block.space)) continue;
    if (page->blocks.size() == limit) {
      page->next = block.key;
      break;
    }
    page->blocks.push_back(block);
  }
  if (page->next || !all.next) return kj::READY_NOW;
  return context_.event_port.getTimer()
      .afterDelay(0 * kj::SECONDS)
      .then([this, next = *all.next, limit, page] { return list_visible(next, limit, page); });
}

kj::Promise<void> ViewerServer::listSpaces(ListSpacesContext call) {
  auto spaces = context_.cache.spaces();
  if (tenant_)
    std::erase_if(spaces, [&](const SpaceDescriptor& space) { return space.tenant != *tenant_; });
  auto list = call.getResults().initSpaces(static_cast<unsigned>(spaces.size()));
  for (std::size_t i = 0; i < spaces.size(); ++i)
    protocol::write_descriptor(spaces[i], list[static_cast<unsigned>(i)]);
  return kj::READY_NOW;
}

kj::Promise<void> ViewerServer::listPins(ListPinsContext call) {
  auto pins = context_.cache.pins();
  std::erase_if(pins, [&](const storage::PinInfo& pin) { return !may_see_space(pin.space); });
  auto list = call.getResults().initPins(static_cast<unsigned>(pins.size()));
  for (std::size_t i = 0; i < pins.size(); ++i) write_pin(pins[i], list[static_cast<unsigned>(i)]);
  return kj::READY_NOW;
}

}  // namespace terrace::daemon
