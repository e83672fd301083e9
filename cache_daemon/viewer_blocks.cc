// What is asked of single blocks, prefixes and sessions.
#include <kj/debug.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache_daemon/explanation.h"
#include "cache_daemon/limit_errors.h"
#include "cache_daemon/operator_answers.h"
#include "cache_daemon/viewer_server.h"
#include "core/bytes.h"
#include "core/clock.h"
#include "protocol/packed.h"

namespace terrace::daemon {
namespace {

using nlohmann::ordered_json;
using protocol::pack;

// In hexadecimal: JSON's numbers do not hold 64 bits everywhere.
std::string hex64(std::uint64_t value) {
  std::uint8_t bytes[sizeof value];
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes[i] = static_cast<std::uint8_t>(value >> (8 * (sizeof value - 1 - i)));
  return to_hex(bytes);
}

ordered_json slot_json(const storage::BlockDetails::SlotDetails& slot) {
  return {{"slot", slot.slot},
          {"checksum", hex64(slot.checksum)},
          {"verified", slot.verified},
          {"sealed_by_session", slot.sealer}};
}

// What an explanation waits for Redis at most: longer than a match may.
constexpr std::int64_t redis_patience_ns = 1'000'000'000;

// Keys that are looked at in one turn behind an answer of Redis, which is of no more.
constexpr std::size_t max_keys_looked_at = 4096;

}  // namespace

kj::Promise<void> ViewerServer::inspect(InspectContext call) {
  const auto details = context_.cache.inspect(read_key(call.getParams().getKey()));
  if (!details || !may_see_space(details->block.space)) return kj::READY_NOW;
  const storage::BlockInfo& block = details->block;
  ordered_json json = {
      {"key", block.key.hex()},
      {"parent", block.depth == 0 ? ordered_json() : ordered_json(block.parent.hex())},
      {"space", block.space.hex()},
      {"depth", block.depth},
      {"tokens", block.tokens},
      {"bytes", block.bytes},
      {"children", details->children},
      {"recency", block.recency},
      {"uses", block.uses},
      {"created_unix_ms", block.created_unix_ms}};
  ordered_json copies = ordered_json::object();
  if (details->device) copies["device"] = slot_json(*details->device);
  if (details->host) copies["host"] = slot_json(*details->host);
  if (details->disk_bytes > 0) copies["disk"] = {{"bytes", details->disk_bytes}};
  if (block.tiers[static_cast<std::size_t>(Tier::redis)]) copies["redis"] = ordered_json::object();
  json["copies"] = std::move(copies);
  json["held_by_sessions"] = details->holders;
  ordered_json pins = ordered_json::array();
  for (const BlockKey& pin : details->pins) pins.push_back(pin.hex());
  json["pins"] = std::move(pins);
  call.getResults().setJson(json.dump());
  return kj::READY_NOW;
}

kj::Promise<void> ViewerServer::explain(ExplainContext call) {
  const auto params = call.getParams();
  const BlockKey digest = read_key(params.getSpace());
  const auto tokens = protocol::unpack<Token>(params.getTokens());
  KJ_REQUIRE(tokens.has_value(), "tokens are cut short");
  require_within("limits.max_tokens_per_call", context_.config.limits.max_tokens_per_call,
                 tokens->size(), "tokens");
  const storage::SpaceId space = require_space(digest);
  require_within("limits.max_keys_per_call", context_.config.limits.max_keys_per_call,
                 tokens->size() / context_.cache.space(space)->block_tokens, "blocks");
  auto explanation = std::make_shared<Explanation>(
      context_.cache, space, digest, std::vector<Token>(tokens->begin(), tokens->end()));
  const std::int64_t redis_deadline_ns = SystemClock().monotonic_ns() + redis_patience_ns;
  return in_turns(context_, [explanation] { return explanation->derive_keys(); })
      .then([this, explanation] {
        return in_turns(context_, [explanation] { return explanation->match(); });
      })
      .then([this, explanation, redis_deadline_ns] {
        auto question = std::make_shared<const Question>(Question{
            explanation->space(), explanation->tokens(), explanation->keys(), redis_deadline_ns});
        return ask_redis(question, explanation->matched_blocks());
      })
      .then([this, call, explanation, redis_deadline_ns](bool asked) mutable {
        const bool late = SystemClock().monotonic_ns() >= redis_deadline_ns;
        explanation->forget_match();
        return in_turns(context_, [explanation] { return explanation->match(); })
            .then([this, explanation, asked, late] {
              return in_turns(
                  context_, [explanation, asked, late] { return explanation->write(asked, late); });
            })
            .then([call, explanation]() mutable {
              call.getResults().setJson(explanation->take_json().c_str());
            });
      });
}

// As a match does it: what is missing here is asked of Redis, some keys at a time.
kj::Promise<bool> ViewerServer::ask_redis(std::shared_ptr<const Question> question,
                                          std::size_t known_blocks) {
  auto answered = kj::newPromiseAndFulfiller<void>();
  auto fulfiller =
      std::make_shared<kj::Own<kj::PromiseFulfiller<void>>>(kj::mv(answered.fulfiller));
  auto told = std::make_shared<bool>(false);
  context_.cache.look_up(question->space, question->keys, question->tokens,
                         question->redis_deadline_ns, [fulfiller, told] {
                           *told = true;
                           (*fulfiller)->fulfill();
                         });
  const bool asked = !*told;  // else there was nobody to be asked, or nothing to ask
  context_.deadlines.look();
  return answered.promise.then([this, question, known_blocks, asked]() -> kj::Promise<bool> {
    const auto behind = std::span(question->keys).subspan(known_blocks);
    const std::size_t found =
        known_blocks +
        context_.cache
            .match(question->space, behind.first(std::min(behind.size(), max_keys_looked_at)), {})
            .matched_blocks;
    if (asked && found > known_blocks && found < question->keys.size())
      return ask_redis(question, found);
    return bool{asked};
  });
}

void ViewerServer::require_session(storage::SessionId id) const {
  if (!tenant_) return;
  for (const SessionTable::Listed& session : context_.sessions.list())
    if (session.id == id && session.tenant == tenant_) return;
  kj::throwFatalException(
      refusal({StatusCode::not_found, "there is no session " + std::to_string(id)}));
}

kj::Promise<void> ViewerServer::sessions(SessionsContext call) {
  ordered_json list = ordered_json::array();
  for (const SessionTable::Listed& session : context_.sessions.list()) {
    if (tenant_ && session.tenant != tenant_) continue;
    list.push_back({{"id", session.id},
                    {"client", session.client_name},
                    {"pid", session.pid},
                    {"connected", session.connected},
                    {"leases", session.leases},
                    {"blocks", session.blocks}});
    if (session.tenant) list.back()["tenant"] = *session.tenant;
  }
  // A client names itself: what is not UTF-8 in it must not end the daemon.
  call.getResults().setJson(list.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  return kj::READY_NOW;
}

}  // namespace terrace::daemon
