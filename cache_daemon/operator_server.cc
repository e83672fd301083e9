#include "cache_daemon/operator_server.h"

#include <kj/debug.h>

#include <chrono>
#include <memory>

#include "cache_daemon/limit_errors.h"
#include "cache_daemon/limits.h"
#include "cache_daemon/operator_answers.h"
#include "core/clock.h"
#include "protocol/packed.h"

namespace terrace::daemon {

using protocol::pack;

namespace {

// On the cache's clock.
std::int64_t deadline_in_ns(std::chrono::nanoseconds wait) {
  return SystemClock().monotonic_ns() + wait.count();
}

}  // namespace

OperatorServer::~OperatorServer() noexcept(false) {
  if (warming_session_) context_.cache.end_session(*warming_session_);
}

void OperatorServer::require_block(const BlockKey& key) const {
  if (!may_see_block(key))
    kj::throwFatalException(refusal({StatusCode::not_found, "there is no block " + key.hex()}));
}

kj::Promise<void> OperatorServer::pin(PinContext call) {
  const auto params = call.getParams();
  const BlockKey key = read_key(params.getKey());
  require_block(key);
  storage::PinOptions options;
  if (const auto tier = params.getTier(); tier != protocol::ANY_TIER) {
    KJ_REQUIRE(tier < tier_count, "there is no such tier");
    options.tier = static_cast<Tier>(tier);
  }
  if (const std::uint64_t ttl_ms = params.getTtlMs(); ttl_ms > 0) {
    KJ_REQUIRE(ttl_ms <= max_pin_ttl_ms, "a pin may not be that long");
    options.expires_unix_ms = SystemClock().unix_ms() + static_cast<std::int64_t>(ttl_ms);
  }
  const auto pinned = context_.cache.pin(key, options);
  if (!pinned) return refusal(pinned.error());
  write_pin(*pinned, call.getResults().initPin());
  return kj::READY_NOW;
}

kj::Promise<void> OperatorServer::unpin(UnpinContext call) {
  const BlockKey key = read_key(call.getParams().getKey());
  // A pin outlives its block. Others' do not exist for this login, in the words of the cache.
  for (const storage::PinInfo& pin : context_.cache.pins())
    if (pin.key == key && !may_see_space(pin.space)) return refusal(storage::not_pinned(key));
  const Status status = context_.cache.unpin(key);
  if (!status.ok()) return refusal(status);
  return kj::READY_NOW;
}

kj::Promise<void> OperatorServer::dropSpace(DropSpaceContext call) {
  const BlockKey digest = read_key(call.getParams().getDigest());
  if (!may_see_space(digest)) require_space(digest);
  auto outcome = kj::newPromiseAndFulfiller<void>();
  // A function must be copyable.
  auto fulfiller = std::make_shared<kj::Own<kj::PromiseFulfiller<void>>>(kj::mv(outcome.fulfiller));
  const std::uint64_t blocks = context_.cache.drop_space(digest, [fulfiller](const Status& status) {
    if (status.ok())
      (*fulfiller)->fulfill();
    else
      (*fulfiller)->reject(refusal(status));
  });
  return outcome.promise.then([call, blocks]() mutable { call.getResults().setBlocks(blocks); });
}

kj::Promise<void> OperatorServer::evict(EvictContext call) {
  const BlockKey key = read_key(call.getParams().getKey());
  require_block(key);
  auto outcome = kj::newPromiseAndFulfiller<std::uint64_t>();
  // A function must be copyable.
  auto fulfiller =
      std::make_shared<kj::Own<kj::PromiseFulfiller<std::uint64_t>>>(kj::mv(outcome.fulfiller));
  context_.cache.evict_prefix(key, [fulfiller](const Result<std::uint64_t>& blocks) {
    if (blocks)
      (*fulfiller)->fulfill(std::uint64_t{*blocks});
    else
      (*fulfiller)->reject(refusal(blocks.error()));
  });
  return outcome.promise.then(
      [call](std::uint64_t blocks) mutable { call.getResults().setBlocks(blocks); });
}

kj::Promise<void> OperatorServer::warm(WarmContext call) {
  const auto params = call.getParams();
  const BlockKey digest = read_key(params.getSpace());
  const auto keys = protocol::unpack<BlockKey>(params.getKeys());
  KJ_REQUIRE(keys.has_value(), "keys are cut short");
  require_within("limits.max_keys_per_call", context_.config.limits.max_keys_per_call, keys->size(),
                 "keys");
  const auto tokens = protocol::unpack<Token>(params.getTokens());
  KJ_REQUIRE(tokens.has_value(), "tokens are cut short");
  require_within("limits.max_tokens_per_call", context_.config.limits.max_tokens_per_call,
                 tokens->size(), "tokens");
  const storage::SpaceId space = require_space(digest);
  const auto into = static_cast<Tier>(params.getTier());
  KJ_REQUIRE(into == Tier::device || into == Tier::host, "blocks are warmed in device or host");
  if (into == Tier::host && context_.cache.host_arena_bytes() == 0)
    return refusal({StatusCode::failed_precondition, "there is no host tier"});
  if (warms_ >= max_warms_at_once)
    return refusal({StatusCode::resource_exhausted, "too many prefixes are being warmed already"});
  if (!warming_session_) warming_session_ = context_.cache.open_session();
  ++warms_;
  auto question = std::make_shared<const Question>(Question{space,
                                                            {tokens->begin(), tokens->end()},
                                                            {keys->begin(), keys->end()},
                                                            deadline_in_ns(warm_lookup_wait)});
  kj::Promise<bool> asked = false;
  if (!tokens->empty())
    asked = ask_redis(question, context_.cache.match(space, *keys, *tokens).matched_blocks);
  return asked
      .then([this, call, question, into](bool) mutable {
        return load_warm(call, question->space, question->keys, into);
      })
      .attach(kj::defer([this] { --warms_; }));
}

kj::Promise<void> OperatorServer::load_warm(WarmContext call, storage::SpaceId space,
                                            std::span<const BlockKey> keys, Tier into) {
  auto outcome = kj::newPromiseAndFulfiller<std::vector<storage::AcquiredBlock>>();
  auto fulfiller =
      std::make_shared<kj::Own<kj::PromiseFulfiller<std::vector<storage::AcquiredBlock>>>>(
          kj::mv(outcome.fulfiller));
  const storage::LeaseId lease = next_lease_++;
  storage::AcquireOptions options;
  options.remote_deadline_ns = deadline_in_ns(warm_load_wait);
  options.into = into;
  context_.cache.acquire(*warming_session_, lease, space, keys, options,
                         [fulfiller](std::vector<storage::AcquiredBlock> blocks) {
                           (*fulfiller)->fulfill(std::move(blocks));
                         });
  context_.deadlines.look();
  return outcome.promise.then(
      [this, call, lease](std::vector<storage::AcquiredBlock> blocks) mutable {
        context_.cache.release(*warming_session_, lease);
        std::vector<std::uint8_t> tiers;
        for (const storage::AcquiredBlock& block : blocks)
          tiers.push_back(static_cast<std::uint8_t>(block.from));
        call.getResults().setTiers(pack(std::span<const std::uint8_t>(tiers)));
      });
}

kj::Promise<void> OperatorServer::kick(KickContext call) {
  const std::uint64_t id = call.getParams().getSessionId();
  require_session(id);
  const Status status = context_.sessions.kick(id);
  if (!status.ok()) return refusal(status);
  return kj::READY_NOW;
}

}  // namespace terrace::daemon
