// What is asked of single blocks, prefixes and sessions.
#include <kj/debug.h>

#include <memory>
#include <nlohmann/json.hpp>

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

const char* state_name(BlockState state) {
  switch (state) {
    case BlockState::absent:
      return "absent";
    case BlockState::pending:
      return "pending";
    case BlockState::device:
    case BlockState::host:
    case BlockState::disk:
    case BlockState::redis:
      break;
  }
  return to_string(static_cast<Tier>(static_cast<std::uint8_t>(state) -
                                     static_cast<std::uint8_t>(BlockState::device)));
}

// What an explanation waits for Redis at most: longer than a match may.
constexpr std::int64_t redis_patience_ns = 1'000'000'000;

// What the tier that other hosts share says of the first block that is missing.
std::string redis_says(const storage::RemoteUsage& usage, bool asked, bool late) {
  if (usage.breaker != storage::Breaker::closed)
    return "; Redis is not asked, because it failed: " + usage.last_failure;
  if (late) return "; Redis did not answer in time";
  return asked ? "; nor does Redis have it" : "; Redis is not asked";
}

// Why a block is where it is, or is not.
std::string reason(const storage::MatchResult& found, std::size_t i, std::uint32_t block_tokens,
                   const std::string& redis) {
  const BlockState state = found.blocks[i];
  if (i < found.matched_blocks) return "a hit";
  if (state == BlockState::pending) return "a session is computing it now";
  if (is_present(state)) return "it is there, but a block before it is missing: out of reach";
  if (i > found.matched_blocks) return "it follows a missing block";
  std::string why = "no block with these tokens is known here: never sealed, or evicted" + redis;
  if (found.partial_tokens > 0)
    why += "; " + std::to_string(found.partial_tokens) + " of its " + std::to_string(block_tokens) +
           " tokens agree with block " + found.partial_key.hex();
  return why;
}

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
  Question question{space, {tokens->begin(), tokens->end()}, {}, 0};
  question.keys =
      derive_block_keys(digest, question.tokens, context_.cache.space(space)->block_tokens);
  question.redis_deadline_ns = SystemClock().monotonic_ns() + redis_patience_ns;
  const std::size_t known_blocks =
      context_.cache.match(space, question.keys, question.tokens).matched_blocks;
  auto shared = std::make_shared<const Question>(std::move(question));
  return ask_redis(shared, known_blocks).then([this, call, shared](bool asked) mutable {
    const storage::MatchResult found =
        context_.cache.match(shared->space, shared->keys, shared->tokens);
    call.getResults().setJson(explanation(*shared, found, asked).dump());
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
    const std::size_t found =
        context_.cache.match(question->space, question->keys, question->tokens).matched_blocks;
    if (asked && found > known_blocks && found < question->keys.size())
      return ask_redis(question, found);
    return bool{asked};
  });
}

ordered_json ViewerServer::explanation(const Question& question, const storage::MatchResult& found,
                                       bool asked) const {
  const SpaceDescriptor& space = *context_.cache.space(question.space);
  const auto remote = context_.cache.stats().remote;
  const bool late = SystemClock().monotonic_ns() >= question.redis_deadline_ns;
  const std::string redis = remote ? redis_says(remote->usage, asked, late) : "";
  ordered_json blocks = ordered_json::array();
  for (std::size_t i = 0; i < question.keys.size(); ++i)
    blocks.push_back({{"key", question.keys[i].hex()},
                      {"state", state_name(found.blocks[i])},
                      {"why", reason(found, i, space.block_tokens, redis)}});
  const std::size_t whole = question.keys.size() * space.block_tokens;
  return {{"space", space.digest().hex()},
          {"tokens", question.tokens.size()},
          {"block_tokens", space.block_tokens},
          {"matched_blocks", found.matched_blocks},
          {"matched_tokens", found.matched_blocks * space.block_tokens + found.partial_tokens},
          {"partial_tokens", found.partial_tokens},
          {"tail_tokens", question.tokens.size() - whole},
          {"load_ns", found.load_ns},
          {"blocks", std::move(blocks)}};
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
