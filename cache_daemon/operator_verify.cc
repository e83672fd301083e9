// Reading every copy of some blocks to see whether it verifies.
#include <kj/debug.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "cache_daemon/limits.h"
#include "cache_daemon/operator_answers.h"
#include "cache_daemon/operator_server.h"
#include "protocol/packed.h"

namespace terrace::daemon {

using nlohmann::ordered_json;

// What a call has seen so far, and where it is.
struct OperatorServer::Verification {
  VerifyBlocksContext call;
  storage::BlockPage page;
  std::size_t block = 0, tier = 0;  // that comes next
  std::uint64_t bytes = 0, limit_bytes = 0;
  bool remove = false;
  std::array<std::uint64_t, 3> copies{};  // of device, host and disk
  ordered_json bad = ordered_json::array();

  explicit Verification(VerifyBlocksContext context) : call(kj::mv(context)) {}

  void answer() {
    ordered_json by_tier = ordered_json::object();
    for (std::size_t i = 0; i < copies.size(); ++i)
      by_tier[to_string(static_cast<Tier>(i))] = copies[i];
    const ordered_json json = {
        {"blocks", block}, {"copies", by_tier}, {"bytes", bytes}, {"bad", std::move(bad)}};
    auto results = call.getResults();
    // A message may quote what is not text.
    results.setJson(json.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    if (block < page.blocks.size())
      results.setNext(protocol::pack(page.blocks[block].key));
    else if (page.next)
      results.setNext(protocol::pack(*page.next));
  }
};

kj::Promise<void> OperatorServer::verifyBlocks(VerifyBlocksContext call) {
  const auto params = call.getParams();
  const std::size_t most = std::clamp<std::size_t>(params.getBlocks(), 1, max_blocks_per_verify);
  const std::uint64_t limit_bytes = std::min(params.getBytes(), max_bytes_per_verify);
  const bool remove = params.getRemove();
  const BlockKey from = params.getFrom().size() > 0 ? read_key(params.getFrom()) : BlockKey{};
  if (verifying_)
    return refusal({StatusCode::resource_exhausted, "this connection is verifying already"});
  auto verification = std::make_shared<Verification>(kj::mv(call));
  verification->limit_bytes = limit_bytes;
  verification->remove = remove;
  verifying_ = true;
  const std::shared_ptr<storage::BlockPage> page(verification, &verification->page);
  return list_visible(from, most, page)
      .then([this, verification] { return verify_next(verification); })
      .attach(kj::defer([this] { verifying_ = false; }));
}

kj::Promise<void> OperatorServer::verify_next(std::shared_ptr<Verification> verification) {
  Verification& at = *verification;
  const auto done_with_block = [&] {
    at.tier = 0;
    ++at.block;
  };
  while (at.block < at.page.blocks.size()) {
    if (at.tier == at.copies.size()) {
      done_with_block();
      if (at.bytes >= at.limit_bytes) break;
      continue;
    }
    if (at.page.blocks[at.block].tiers[at.tier]) break;
    ++at.tier;
  }
  if (at.block == at.page.blocks.size() ||
      (at.tier == 0 && at.block > 0 && at.bytes >= at.limit_bytes)) {
    at.answer();
    return kj::READY_NOW;
  }
  auto outcome = kj::newPromiseAndFulfiller<storage::CopyCheck>();
  // A function must be copyable.
  auto fulfiller = std::make_shared<kj::Own<kj::PromiseFulfiller<storage::CopyCheck>>>(
      kj::mv(outcome.fulfiller));
  context_.cache.check_copy(
      at.page.blocks[at.block].key, static_cast<Tier>(at.tier), at.remove,
      [fulfiller](storage::CopyCheck check) { (*fulfiller)->fulfill(std::move(check)); });
  return outcome.promise.then([this, verification](storage::CopyCheck check) -> kj::Promise<void> {
    Verification& so_far = *verification;
    const StatusCode code = check.status.code();
    if (code == StatusCode::resource_exhausted) return refusal(check.status);
    if (code != StatusCode::not_found) {
      ++so_far.copies[so_far.tier];
      so_far.bytes += check.bytes;
      const storage::BlockInfo& block = so_far.page.blocks[so_far.block];
      if (code != StatusCode::ok)
        so_far.bad.push_back({{"key", block.key.hex()},
                              {"space", block.space.hex()},
                              {"tier", to_string(static_cast<Tier>(so_far.tier))},
                              {"place", check.place},
                              {"reason", check.status.message()},
                              {"removed", check.removed}});
    }
    ++so_far.tier;
    return verify_next(verification);
  });
}

}  // namespace terrace::daemon
