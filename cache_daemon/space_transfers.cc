// put and get: what goes through a session's staging region.
#include <kj/debug.h>

#include <algorithm>
#include <cmath>

#include "cache_daemon/limits.h"
#include "cache_daemon/space_server.h"
#include "protocol/packed.h"

namespace terrace::daemon {
namespace {

// As of a slot: copies are quicker then, and no two blocks share a cache line.
constexpr std::uint64_t staging_alignment_bytes = 64;

}  // namespace

std::vector<std::span<std::byte>> SpaceServer::read_offsets(capnp::Data::Reader data) const {
  const auto offsets = protocol::unpack<std::uint64_t>(data);
  KJ_REQUIRE(offsets.has_value() && offsets->size() <= max_blocks_per_transfer,
             "too many blocks, or cut short", data.size());
  const StagingRegion& region = *session_->staging();
  const std::uint64_t block_bytes = context_.cache.space(space_)->block_bytes;
  std::vector<std::span<std::byte>> pieces;
  pieces.reserve(offsets->size());
  for (const std::uint64_t offset : *offsets) {
    const auto piece = region.find(offset, block_bytes);
    KJ_REQUIRE(piece.has_value() && offset % staging_alignment_bytes == 0,
               "no block can lie there in the staging region", offset, block_bytes);
    pieces.push_back(*piece);
  }
  return pieces;
}

kj::Promise<void> SpaceServer::put(PutContext call) {
  CallTimer timer(context_.calls[CallKind::put]);
  const auto params = call.getParams();
  const auto parent = protocol::unpack_key(params.getParent());
  KJ_REQUIRE(parent.has_value(), "a parent must have 32 bytes");
  const auto pieces = read_offsets(params.getOffsets());
  const auto tokens = protocol::unpack<Token>(params.getTokens());
  const auto checksums = protocol::unpack<std::uint64_t>(params.getChecksums());
  const std::size_t block_tokens = context_.cache.space(space_)->block_tokens;
  KJ_REQUIRE(tokens.has_value() && tokens->size() == pieces.size() * block_tokens,
             "there must be a block's tokens to each offset");
  KJ_REQUIRE(checksums.has_value() && checksums->size() == pieces.size(),
             "there must be a checksum to each offset");
  storage::PutRequest request;
  request.space = space_;
  request.parent = *parent;
  request.tokens.assign(tokens->begin(), tokens->end());
  request.sources.assign(pieces.begin(), pieces.end());
  request.checksums.assign(checksums->begin(), checksums->end());
  request.memory = session_->staging();
  return session_->put(std::move(request))
      .then([call, timer = kj::mv(timer)](std::vector<PutOutcome> outcomes) mutable {
        call.getResults().setOutcomes(
            protocol::pack(std::span<const PutOutcome>(outcomes)));
        timer.answered();
      });
}

kj::Promise<void> SpaceServer::get(GetContext call) {
  CallTimer timer(context_.calls[CallKind::get]);
  const auto params = call.getParams();
  const auto keys = read_keys(params.getKeys());
  storage::GetRequest request;
  request.destinations = read_offsets(params.getOffsets());
  KJ_REQUIRE(request.destinations.size() == keys.size(), "there must be a key to each offset");
  request.space = space_;
  request.keys.assign(keys.begin(), keys.end());
  request.memory = session_->staging();
  storage::AcquireOptions options;
  if (const double speed = params.getPrefillTokensPerSecond(); std::isfinite(speed) && speed > 0)
    options.prefill_tokens_per_second = speed;
  options.wait_ms = std::min(params.getWaitMs(), std::uint32_t{max_acquire_wait.count()});
  options.remote_deadline_ns = redis_load_deadline_ns(params.getBudgetMs());
  // Who is gone, or asks no more, holds nothing.
  call.allowCancellation();
  auto got = session_->get(std::move(request), options);
  context_.deadlines.look();
  return got.then([call, timer = kj::mv(timer)](std::vector<storage::GotBlock> blocks) mutable {
    auto results = call.getResults();
    auto tiers = results.initTiers(static_cast<unsigned>(blocks.size()));
    std::vector<std::uint64_t> checksums;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      tiers[i] = static_cast<kj::byte>(blocks[i].from);
      checksums.push_back(blocks[i].checksum);
    }
    results.setChecksums(protocol::pack(std::span<const std::uint64_t>(checksums)));
    timer.answered();
  });
}

}  // namespace terrace::daemon
