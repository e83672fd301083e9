#include "client/block_transfers.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "client/limits.h"
#include "client/remote_space.h"
#include "client/staging_area.h"
#include "core/checksum.h"

namespace terrace::client {
namespace {

// A piece on its way. What it says of the caller's memory counts as long as this lives.
template <typename T>
class PieceUnderWay {
 public:
  PieceUnderWay(std::shared_ptr<Call<T>> call, std::shared_ptr<StagedBlocks> staged)
      : call_(std::move(call)), staged_(std::move(staged)) {}
  PieceUnderWay(PieceUnderWay&&) noexcept = default;
  PieceUnderWay& operator=(PieceUnderWay&&) = delete;
  ~PieceUnderWay() {
    if (call_) call_->abandon();
  }

  Call<T>& call() const { return *call_; }
  const StagedBlocks& staged() const { return *staged_; }

 private:
  std::shared_ptr<Call<T>> call_;
  std::shared_ptr<StagedBlocks> staged_;
};

// The region of the connection that stands now.
Result<std::shared_ptr<StagingArea>> staging_area(SharedConnection& shared) {
  if (shared.payload == PayloadPath::arena)
    return error(StatusCode::failed_precondition,
                 "put and get are for clients that said so in ClientOptions::payload");
  if (const Status status = shared.state.check(); !status.ok()) return error(status);
  auto area = shared.state.staging();
  if (!area) return error(StatusCode::unavailable, "the connection to terraced is gone");
  return area;
}

std::size_t blocks_of_piece(const StagingArea& area, std::uint64_t block_bytes) {
  const std::uint64_t bytes = std::min(area.size() / 2, max_transfer_piece_bytes);
  return std::clamp<std::size_t>(bytes / block_bytes, 1, max_blocks_per_piece);
}

// Room for the next piece: waits for it only if this caller has none of its own on the way, else
// two callers could wait for each other for ever.
Result<std::shared_ptr<StagedBlocks>> take_room(StagingArea& area, std::uint64_t block_bytes,
                                                std::size_t most, bool may_wait,
                                                Deadline deadline) {
  return area.take(block_bytes, std::min(most, blocks_of_piece(area, block_bytes)),
                   may_wait ? std::optional(deadline) : std::nullopt);
}

template <typename T, typename Start>
Result<std::shared_ptr<Call<T>>> begin(SharedConnection& shared, SpaceNumber number,
                                       Deadline deadline, Start start) {
  return shared.begin<T>(deadline, [number, start](Engine& engine, const Answer<T>& answer) {
    if (RemoteSpace* const remote = engine.space(number)) start(*remote, answer);
  });
}

}  // namespace

Result<std::vector<PutOutcome>> put_blocks(SharedConnection& shared, const SpaceRef& space,
                                           const BlockKey& parent, std::span<const Token> tokens,
                                           std::span<const std::byte* const> blocks,
                                           Deadline deadline) {
  const std::size_t block_tokens = space.descriptor.block_tokens;
  const std::uint64_t block_bytes = space.descriptor.block_bytes;
  if (tokens.size() != blocks.size() * block_tokens)
    return error(StatusCode::invalid_argument, "there must be a block's tokens to each block");
  std::vector<PutOutcome> outcomes;
  if (blocks.empty()) return outcomes;
  const auto area = staging_area(shared);
  if (!area) return error(area.error());

  std::deque<PieceUnderWay<std::vector<PutOutcome>>> under_way;
  BlockKey above = parent;
  for (std::size_t next = 0; outcomes.size() < blocks.size();) {
    std::shared_ptr<StagedBlocks> room;
    if (next < blocks.size() && under_way.size() < max_pieces_per_transfer) {
      auto taken =
          take_room(**area, block_bytes, blocks.size() - next, under_way.empty(), deadline);
      if (!taken) return error(taken.error());
      room = std::move(*taken);
    }
    if (!room) {  // no more of it, or its turn comes with an answer
      auto answered = shared.finish(under_way.front().call(), deadline);
      if (!answered) return error(answered.error());
      under_way.pop_front();
      outcomes.insert(outcomes.end(), answered->begin(), answered->end());
      continue;
    }
    PutPiece piece;
    piece.parent = above;
    piece.tokens = tokens.subspan(next * block_tokens, room->size() * block_tokens);
    piece.blocks = blocks.subspan(next, room->size());
    for (std::size_t i = 0; i < room->size(); ++i) {
      const std::span<const std::byte> bytes(piece.blocks[i], block_bytes);
      piece.checksums.push_back((*area)->data() ? copy_with_checksum(room->address(i), bytes)
                                                : payload_checksum(bytes));
    }
    if (next + room->size() < blocks.size())
      for (std::size_t i = 0; i < room->size(); ++i)
        above = derive_block_key(above, piece.tokens.subspan(i * block_tokens, block_tokens));
    next += room->size();
    piece.staged = room;
    auto call = begin<std::vector<PutOutcome>>(
        shared, space.number, deadline,
        [piece](RemoteSpace& remote, const Answer<std::vector<PutOutcome>>& answer) {
          remote.put(piece, answer);
        });
    if (!call) return error(call.error());
    under_way.emplace_back(std::move(*call), std::move(room));
  }
  return outcomes;
}

Result<std::vector<Tier>> get_blocks(SharedConnection& shared, const SpaceRef& space,
                                     std::span<const BlockKey> keys,
                                     std::span<std::byte* const> destinations,
                                     const GetOptions& options, Deadline deadline) {
  const std::uint64_t block_bytes = space.descriptor.block_bytes;
  if (destinations.size() != keys.size())
    return error(StatusCode::invalid_argument, "there must be a destination to each key");
  std::vector<Tier> tiers;
  if (keys.empty()) return tiers;
  const auto area = staging_area(shared);
  if (!area) return error(area.error());

  std::deque<PieceUnderWay<std::vector<GotBlock>>> under_way;
  // What had come when something failed.
  const auto so_far = [&](const Status& why) -> Result<std::vector<Tier>> {
    if (tiers.empty()) return error(why);
    return std::move(tiers);
  };
  for (std::size_t next = 0; tiers.size() < keys.size();) {
    std::shared_ptr<StagedBlocks> room;
    if (next < keys.size() && under_way.size() < max_pieces_per_transfer) {
      auto taken = take_room(**area, block_bytes, keys.size() - next, under_way.empty(), deadline);
      if (!taken) return so_far(taken.error());
      room = std::move(*taken);
    }
    if (!room) {
      const auto first = std::move(under_way.front());
      under_way.pop_front();
      const auto blocks = shared.finish(first.call(), deadline);
      if (!blocks) return so_far(blocks.error());
      for (std::size_t i = 0; i < blocks->size(); ++i) {
        std::byte* const to = destinations[tiers.size()];
        const std::uint64_t checksum =
            (*area)->data() ? copy_with_checksum(to, {first.staged().address(i), block_bytes})
                            : payload_checksum({to, block_bytes});
        if (checksum != (*blocks)[i].checksum)
          return so_far(Status(StatusCode::corruption, "a block changed on its way from terraced"));
        tiers.push_back((*blocks)[i].from);
      }
      if (blocks->size() < first.staged().size()) return tiers;  // the end of the run
      continue;
    }
    GetPiece piece;
    piece.keys = keys.subspan(next, room->size());
    piece.destinations = destinations.subspan(next, room->size());
    piece.options = options;
    piece.deadline = deadline;
    piece.staged = room;
    next += room->size();
    auto call = begin<std::vector<GotBlock>>(
        shared, space.number, deadline,
        [piece](RemoteSpace& remote, const Answer<std::vector<GotBlock>>& answer) {
          remote.get(piece, answer);
        });
    if (!call) return so_far(call.error());
    under_way.emplace_back(std::move(*call), std::move(room));
  }
  return tiers;
}

}  // namespace terrace::client
