// What operators ask of single blocks and prefixes.
#include <kj/debug.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cache_daemon/limits.h"
#include "cache_daemon/operator_answers.h"
#include "cache_daemon/operator_server.h"
#include "core/bytes.h"
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

// Why a block is where it is, or is not.
std::string reason(const storage::MatchResult& found, std::size_t i, std::uint32_t block_tokens) {
  const BlockState state = found.blocks[i];
  if (i < found.matched_blocks) return "a hit";
  if (state == BlockState::pending) return "a session is computing it now";
  if (is_present(state)) return "it is there, but a block before it is missing: out of reach";
  if (i > found.matched_blocks) return "it follows a missing block";
  std::string why = "no block with these tokens is known here: never sealed, or evicted";
  if (found.partial_tokens > 0)
    why += "; " + std::to_string(found.partial_tokens) + " of its " + std::to_string(block_tokens) +
           " tokens agree with block " + found.partial_key.hex();
  return why;
}

}  // namespace

OperatorServer::~OperatorServer() noexcept(false) {
  if (warming_session_) context_.cache.end_session(*warming_session_);
}

kj::Promise<void> OperatorServer::evict(EvictContext call) {
  auto outcome = kj::newPromiseAndFulfiller<std::uint64_t>();
  // A function must be copyable.
  auto fulfiller =
      std::make_shared<kj::Own<kj::PromiseFulfiller<std::uint64_t>>>(kj::mv(outcome.fulfiller));
  context_.cache.evict_prefix(read_key(call.getParams().getKey()),
                              [fulfiller](const Result<std::uint64_t>& blocks) {
                                if (blocks)
                                  (*fulfiller)->fulfill(std::uint64_t{*blocks});
                                else
                                  (*fulfiller)->reject(refusal(blocks.error()));
                              });
  return outcome.promise.then(
      [call](std::uint64_t blocks) mutable { call.getResults().setBlocks(blocks); });
}

kj::Promise<void> OperatorServer::inspect(InspectContext call) {
  const auto details = context_.cache.inspect(read_key(call.getParams().getKey()));
  if (!details) return kj::READY_NOW;
  const storage::BlockInfo& block = details->block;
  ordered_json json = {
      {"key", block.key.hex()},
      {"parent", block.depth == 0 ? ordered_json() : ordered_json(block.parent.hex())},
      {"space", block.space.hex()},
      {"depth", block.depth},
      {"tokens", block.tokens},
      {"bytes", block.bytes},
      {"children", details->children},
      {"recency", block.recency}};
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

kj::Promise<void> OperatorServer::explain(ExplainContext call) {
  const auto params = call.getParams();
  const BlockKey digest = read_key(params.getSpace());
  const auto tokens = protocol::unpack<Token>(params.getTokens());
  KJ_REQUIRE(tokens.has_value() && tokens->size() <= max_tokens_per_call,
             "too many tokens, or cut short");
  const auto space = context_.cache.find_space(digest);
  if (!space) return refusal({StatusCode::not_found, "there is no space " + digest.hex()});
  const std::uint32_t block_tokens = context_.cache.space(*space)->block_tokens;
  const auto keys = derive_block_keys(digest, *tokens, block_tokens);
  const storage::MatchResult found = context_.cache.match(*space, keys, *tokens);
  ordered_json blocks = ordered_json::array();
  for (std::size_t i = 0; i < keys.size(); ++i)
    blocks.push_back({{"key", keys[i].hex()},
                      {"state", state_name(found.blocks[i])},
                      {"why", reason(found, i, block_tokens)}});
  const std::size_t whole = keys.size() * block_tokens;
  const ordered_json json = {
      {"space", digest.hex()},
      {"tokens", tokens->size()},
      {"block_tokens", block_tokens},
      {"matched_blocks", found.matched_blocks},
      {"matched_tokens", found.matched_blocks * block_tokens + found.partial_tokens},
      {"partial_tokens", found.partial_tokens},
      {"tail_tokens", tokens->size() - whole},
      {"load_ns", found.load_ns},
      {"blocks", std::move(blocks)}};
  call.getResults().setJson(json.dump());
  return kj::READY_NOW;
}

kj::Promise<void> OperatorServer::warm(WarmContext call) {
  const auto params = call.getParams();
  const BlockKey digest = read_key(params.getSpace());
  const auto keys = protocol::unpack<BlockKey>(params.getKeys());
  KJ_REQUIRE(keys.has_value() && keys->size() <= context_.config.limits.max_keys_per_call,
             "too many keys, or cut short");
  const auto space = context_.cache.find_space(digest);
  if (!space) return refusal({StatusCode::not_found, "there is no space " + digest.hex()});
  if (warms_ >= max_warms_at_once)
    return refusal({StatusCode::resource_exhausted, "too many prefixes are being warmed already"});
  if (!warming_session_) warming_session_ = context_.cache.open_session();
  auto outcome = kj::newPromiseAndFulfiller<std::vector<storage::AcquiredBlock>>();
  auto fulfiller =
      std::make_shared<kj::Own<kj::PromiseFulfiller<std::vector<storage::AcquiredBlock>>>>(
          kj::mv(outcome.fulfiller));
  const storage::LeaseId lease = next_lease_++;
  context_.cache.acquire(*warming_session_, lease, *space, *keys, {},
                         [fulfiller](std::vector<storage::AcquiredBlock> blocks) {
                           (*fulfiller)->fulfill(std::move(blocks));
                         });
  ++warms_;
  return outcome.promise
      .then([this, call, lease](std::vector<storage::AcquiredBlock> blocks) mutable {
        context_.cache.release(*warming_session_, lease);
        std::vector<std::uint8_t> tiers;
        for (const storage::AcquiredBlock& block : blocks)
          tiers.push_back(static_cast<std::uint8_t>(block.from));
        call.getResults().setTiers(pack(std::span<const std::uint8_t>(tiers)));
      })
      .attach(kj::defer([this] { --warms_; }));
}

kj::Promise<void> OperatorServer::sessions(SessionsContext call) {
  ordered_json list = ordered_json::array();
  for (const SessionTable::Listed& session : context_.sessions.list())
    list.push_back({{"id", session.id},
                    {"client", session.client_name},
                    {"pid", session.pid},
                    {"connected", session.connected},
                    {"leases", session.leases},
                    {"blocks", session.blocks}});
  // A client names itself: what is not UTF-8 in it must not end the daemon.
  call.getResults().setJson(list.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  return kj::READY_NOW;
}

kj::Promise<void> OperatorServer::kick(KickContext call) {
  const Status status = context_.sessions.kick(call.getParams().getSessionId());
  if (!status.ok()) return refusal(status);
  return kj::READY_NOW;
}

}  // namespace terrace::daemon
