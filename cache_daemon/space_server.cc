#include "cache_daemon/space_server.h"

#include <kj/debug.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include "cache_daemon/limit_errors.h"
#include "cache_daemon/limits.h"
#include "cache_daemon/log.h"
#include "core/clock.h"
#include "protocol/packed.h"

namespace terrace::daemon {
namespace {

using protocol::pack;
using protocol::unpack;

void require_device(std::uint16_t index) {
  KJ_REQUIRE(index == 0, "there is no device of this index", index);
}

// The part of a call's budget that waiting for Redis may take, within an option of its own.
std::int64_t redis_deadline_ns(std::uint32_t budget_ms, std::chrono::milliseconds request_budget,
                               std::chrono::milliseconds limit, double part) {
  const double budget_ns =
      1e6 * static_cast<double>(budget_ms > 0 ? budget_ms : request_budget.count()) * part;
  const auto limit_ns = static_cast<double>(std::chrono::nanoseconds(limit).count());
  return SystemClock().monotonic_ns() + static_cast<std::int64_t>(std::min(budget_ns, limit_ns));
}

double milliseconds(std::int64_t ns) { return static_cast<double>(ns) / 1e6; }

// Room for an answer with so many bytes of packed data. Without being told, Cap'n Proto takes (and
// clears) 8 KiB for each.
capnp::MessageSize answer_size(std::size_t data_bytes) {
  constexpr std::size_t words_around_data = 16;
  return {words_around_data + data_bytes / sizeof(capnp::word), 0};
}

capnp::Data::Reader pack_slots(std::span<const storage::SlotOffset> slots) { return pack(slots); }

}  // namespace

SpaceServer::DispatchCallResult SpaceServer::dispatchCall(
    std::uint64_t interface_id, std::uint16_t method_id,
    capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> call) {
  return counted(peer_, context_.config.limits, [&] {
    return protocol::Space::Server::dispatchCall(interface_id, method_id, call);
  });
}

std::span<const BlockKey> SpaceServer::read_keys(capnp::Data::Reader data) const {
  const auto keys = unpack<BlockKey>(data);
  KJ_REQUIRE(keys.has_value(), "keys are cut short", data.size());
  require_within("limits.max_keys_per_call", context_.config.limits.max_keys_per_call, keys->size(),
                 "keys");
  return *keys;
}

std::span<const Token> SpaceServer::read_tokens(capnp::Data::Reader data) const {
  const auto tokens = unpack<Token>(data);
  KJ_REQUIRE(tokens.has_value(), "tokens are cut short", data.size());
  require_within("limits.max_tokens_per_call", context_.config.limits.max_tokens_per_call,
                 tokens->size(), "tokens");
  return *tokens;
}

kj::Promise<void> SpaceServer::match(MatchContext call) {
  CallTimer timer(context_.calls[CallKind::match]);
  const auto params = call.getParams();
  const auto keys = read_keys(params.getKeys());
  const auto tokens = read_tokens(params.getTokens());
  const storage::MatchResult found = context_.cache.match(space_, keys, tokens);
  if (found.matched_blocks < keys.size() && !tokens.empty() &&
      !context_.config.redis.endpoints.empty()) {
    bool told = false;
    auto tell = std::make_shared<std::function<void()>>([&told] { told = true; });
    context_.cache.look_up(
        space_, keys, tokens,
        redis_deadline_ns(params.getBudgetMs(), context_.config.request_budget,
                          context_.config.redis.lookup_timeout, lookup_budget_part),
        [tell] { (*tell)(); });
    if (!told) {
      auto answered = kj::newPromiseAndFulfiller<void>();
      auto fulfiller =
          std::make_shared<kj::Own<kj::PromiseFulfiller<void>>>(kj::mv(answered.fulfiller));
      *tell = [fulfiller] { (*fulfiller)->fulfill(); };
      context_.deadlines.look();
      return answered.promise.then([this, call, keys, tokens, timer = kj::mv(timer)]() mutable {
        const std::int64_t redis_ns = timer.elapsed().count();
        answer_match(call, context_.cache.match(space_, keys, tokens));
        tell_slow_match(timer, keys.size(), redis_ns);
        timer.answered();
      });
    }
  }
  answer_match(call, found);
  tell_slow_match(timer, keys.size(), 0);
  timer.answered();
  return kj::READY_NOW;
}

std::int64_t SpaceServer::redis_load_deadline_ns(std::uint32_t budget_ms) const {
  return redis_deadline_ns(budget_ms, context_.config.request_budget,
                           context_.config.redis.load_timeout, load_budget_part);
}

bool SpaceServer::is_slow(const CallTimer& timer) const {
  const std::chrono::milliseconds slow = context_.config.log.slow;
  return slow.count() > 0 && timer.elapsed() >= slow;
}

void SpaceServer::tell_slow_match(const CallTimer& timer, std::size_t keys,
                                  std::int64_t redis_ns) const {
  if (!is_slow(timer)) return;
  log_event(config::LogLevel::warning, "slow match",
            {{"session", session_->id()},
             {"client", session_->client_name()},
             {"keys", std::uint64_t{keys}},
             {"ms", milliseconds(timer.elapsed().count())},
             {"redis_ms", milliseconds(redis_ns)}});
}

void SpaceServer::answer_match(MatchContext& call, const storage::MatchResult& found) {
  auto results = call.getResults(answer_size(found.blocks.size()));
  results.setStates(pack(std::span(found.blocks)));
  results.setMatchedBlocks(found.matched_blocks);
  results.setPartialTokens(found.partial_tokens);
  if (found.partial_tokens > 0) {
    results.setPartialKey(pack(found.partial_key));
    results.setPartialTier(static_cast<std::uint8_t>(found.partial_tier));
  }
  results.setLoadNs(found.load_ns);
}

kj::Promise<void> SpaceServer::acquire(AcquireContext call) {
  require_shared_memory(*peer_);
  CallTimer timer(context_.calls[CallKind::acquire]);
  const auto params = call.getParams();
  require_device(params.getDeviceIndex());
  storage::AcquireOptions options;
  if (const double speed = params.getPrefillTokensPerSecond(); std::isfinite(speed) && speed > 0)
    options.prefill_tokens_per_second = speed;
  options.partial_tokens = params.getPartialTokens();
  options.wait_ms = std::min(params.getWaitMs(), std::uint32_t{max_acquire_wait.count()});
  options.remote_deadline_ns = redis_load_deadline_ns(params.getBudgetMs());
  if (context_.config.log.slow.count() > 0)
    options.times = std::make_shared<storage::AcquireTimes>();
  auto acquired =
      session_->acquire(params.getLease(), space_, read_keys(params.getKeys()), options);
  context_.deadlines.look();
  if (acquired.at_once) {
    answer_acquire(call, timer, *acquired.at_once, options.times.get());
    return kj::READY_NOW;
  }
  return acquired.later.then([this, call, timer = kj::mv(timer), times = options.times](
                                 std::vector<storage::AcquiredBlock> blocks) mutable {
    answer_acquire(call, timer, blocks, times.get());
  });
}

void SpaceServer::answer_acquire(AcquireContext& call, CallTimer& timer,
                                 std::span<const storage::AcquiredBlock> blocks,
                                 const storage::AcquireTimes* times) const {
  auto results =
      call.getResults(answer_size(blocks.size() * (sizeof(storage::SlotOffset) + sizeof(Tier))));
  auto slots =
      results.initSlots(static_cast<unsigned>(blocks.size() * sizeof(storage::SlotOffset)));
  auto tiers = results.initTiers(static_cast<unsigned>(blocks.size()));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    std::memcpy(slots.begin() + i * sizeof(storage::SlotOffset), &blocks[i].slot,
                sizeof(storage::SlotOffset));
    tiers[i] = static_cast<kj::byte>(blocks[i].from);
  }
  if (times && is_slow(timer)) {
    const auto asked = call.getParams();
    log_event(config::LogLevel::warning, "slow acquire",
              {{"session", session_->id()},
               {"client", session_->client_name()},
               {"lease", asked.getLease()},
               {"keys", std::uint64_t{asked.getKeys().size() / sizeof(BlockKey)}},
               {"blocks", std::uint64_t{blocks.size()}},
               {"ms", milliseconds(timer.elapsed().count())},
               {"host_ms", milliseconds(times->host_ns)},
               {"disk_ms", milliseconds(times->disk_ns)},
               {"redis_ms", milliseconds(times->redis_ns)},
               {"check_ms", milliseconds(times->check_ns)},
               {"others_ms", milliseconds(times->others_ns)}});
  }
  timer.answered();
}

kj::Promise<void> SpaceServer::reserve(ReserveContext call) {
  require_shared_memory(*peer_);
  CallTimer timer(context_.calls[CallKind::reserve]);
  const auto params = call.getParams();
  require_device(params.getDeviceIndex());
  require_within("the most slots without a key", max_unnamed_per_call, params.getUnnamed(),
                 "slots");
  const std::span<const BlockKey> keys = read_keys(params.getKeys());
  std::optional<std::vector<storage::SlotOffset>> slots;
  if (params.getUnlessTaken())
    slots = session_->claim(params.getLease(), space_, keys, params.getUnnamed());
  else
    slots = session_->reserve(params.getLease(), space_, keys, params.getUnnamed());
  auto results =
      call.getResults(answer_size(slots ? slots->size() * sizeof(storage::SlotOffset) : 0));
  if (slots)
    results.setSlots(pack_slots(*slots));
  else
    results.setTaken(true);
  timer.answered();
  return kj::READY_NOW;
}

kj::Promise<void> SpaceServer::seal(SealContext call) {
  require_shared_memory(*peer_);
  CallTimer timer(context_.calls[CallKind::seal]);
  const auto params = call.getParams();
  const auto blocks = params.getBlocks();
  require_within("limits.max_keys_per_call", context_.config.limits.max_keys_per_call,
                 blocks.size(), "blocks");
  std::vector<storage::SealRequest> requests;
  requests.reserve(blocks.size());
  for (const auto block : blocks) {
    const auto parent = protocol::unpack_key(block.getParent());
    KJ_REQUIRE(parent.has_value(), "a parent must have 32 bytes");
    const auto tokens = unpack<Token>(block.getTokens());
    KJ_REQUIRE(tokens.has_value() && tokens->size() <= max_block_tokens,
               "too many tokens, or cut short");
    requests.push_back({.slot = block.getSlot(),
                        .parent = *parent,
                        .tokens = {tokens->begin(), tokens->end()},
                        .checksum = block.getChecksum()});
  }
  const auto outcomes = session_->seal(params.getLease(), requests);
  call.getResults(answer_size(outcomes.size())).setOutcomes(pack(std::span(outcomes)));
  timer.answered();
  return kj::READY_NOW;
}

kj::Promise<void> SpaceServer::release(ReleaseContext call) {
  CallTimer timer(context_.calls[CallKind::release]);
  for (const std::uint64_t lease : call.getParams().getLeases()) session_->release(lease);
  timer.answered();
  return kj::READY_NOW;
}

}  // namespace terrace::daemon
