// put and get of a space, with the payload in shared memory or in messages.
#include <algorithm>
#include <cstring>

#include "client/limits.h"
#include "client/remote_space.h"
#include "protocol/packed.h"

namespace terrace::client {
namespace {

using protocol::pack;
using protocol::unpack;

constexpr std::size_t transfer_request_words = 32;

// Payload that goes by messages, a bounded number of them under way. Each lane sends its next one
// when the last was answered.
template <typename Send>
kj::Promise<void> run_lane(std::shared_ptr<Send> send) {
  kj::Maybe<kj::Promise<void>> sent = (*send)();
  KJ_IF_MAYBE (promise, sent) {
    return promise->then([send] { return run_lane(send); });
  }
  return kj::READY_NOW;
}

template <typename Send>
kj::Promise<void> run_lanes(Send send) {
  auto shared = std::make_shared<Send>(std::move(send));
  auto lanes = kj::heapArrayBuilder<kj::Promise<void>>(max_payload_messages);
  for (std::size_t i = 0; i < max_payload_messages; ++i) lanes.add(run_lane(shared));
  return kj::joinPromises(lanes.finish());
}

// Walks through blocks in pieces of a message's size.
class PayloadCursor {
 public:
  PayloadCursor(std::size_t blocks, std::uint64_t block_bytes, std::uint32_t max_piece_bytes)
      : blocks_(blocks), block_bytes_(block_bytes), max_piece_bytes_(max_piece_bytes) {}

  struct Piece {
    std::size_t block = 0;
    std::uint64_t at = 0;  // in the block
    std::uint32_t bytes = 0;
  };
  std::optional<Piece> next() {
    if (block_ == blocks_) return std::nullopt;
    const auto bytes =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(max_piece_bytes_, block_bytes_ - at_));
    const Piece piece{block_, at_, bytes};
    at_ += bytes;
    if (at_ == block_bytes_) {
      ++block_;
      at_ = 0;
    }
    return piece;
  }

 private:
  std::size_t blocks_;
  std::uint64_t block_bytes_;
  std::uint32_t max_piece_bytes_;
  std::size_t block_ = 0;
  std::uint64_t at_ = 0;
};

Result<std::vector<PutOutcome>> read_outcomes(capnp::Data::Reader data, std::size_t blocks) {
  const auto bytes = unpack<std::uint8_t>(data);
  if (!bytes || bytes->size() != blocks) return not_understood();
  std::vector<PutOutcome> outcomes;
  for (const std::uint8_t byte : *bytes) {
    if (byte >= put_outcomes) return not_understood();
    outcomes.push_back(static_cast<PutOutcome>(byte));
  }
  return outcomes;
}

Result<std::vector<GotBlock>> read_got(protocol::Space::GetResults::Reader answer,
                                       std::size_t most) {
  const auto tiers = unpack<std::uint8_t>(answer.getTiers());
  const auto checksums = unpack<std::uint64_t>(answer.getChecksums());
  if (!tiers || !checksums || tiers->size() != checksums->size() || tiers->size() > most)
    return not_understood();
  std::vector<GotBlock> blocks;
  for (std::size_t i = 0; i < tiers->size(); ++i) {
    if ((*tiers)[i] >= tier_count) return not_understood();
    blocks.push_back({static_cast<Tier>((*tiers)[i]), (*checksums)[i]});
  }
  return blocks;
}

}  // namespace

bool RemoteSpace::is_current(const StagedBlocks& staged) const {
  return link_ != nullptr && link_->staging_area() == staged.area();
}

void RemoteSpace::put(const PutPiece& piece, Answer<std::vector<PutOutcome>> answer) {
  if (!is_current(*piece.staged)) return;
  const StagingArea& area = *piece.staged->area();
  if (area.data()) return send_put(piece, answer);
  streamed_puts_.emplace_back(piece, std::move(answer));
  stream_next_put();
}

// One at a time: the daemon must hear of a prompt's pieces in their order, and their messages would
// overtake each other.
void RemoteSpace::stream_next_put() {
  if (streaming_put_ || streamed_puts_.empty()) return;
  auto [piece, answer] = std::move(streamed_puts_.front());
  streamed_puts_.pop_front();
  if (!is_current(*piece.staged)) return;
  streaming_put_ = true;
  auto write_next = [piece = piece, answer = answer, staging = link_->staging(),
                     cursor = PayloadCursor(piece.staged->size(), descriptor_.block_bytes,
                                            piece.staged->area()->max_piece_bytes())]() mutable
      -> kj::Maybe<kj::Promise<void>> {
    const auto next = cursor.next();
    if (!next) return nullptr;
    auto request = staging.writeRequest(
        capnp::MessageSize{transfer_request_words + next->bytes / sizeof(capnp::word), 0});
    request.setOffset(piece.staged->offsets()[next->block] + next->at);
    const bool wanted = answer.call().while_wanted([&] {
      request.setData(pack(std::span(piece.blocks[next->block] + next->at, next->bytes)));
    });
    if (!wanted) return nullptr;
    return request.send().ignoreResult();
  };
  const auto go_on = [weak = weak_from_this(), piece = piece, answer = answer](bool written) {
    const auto self = weak.lock();
    if (!self || !self->is_current(*piece.staged)) return;
    self->streaming_put_ = false;
    if (written) self->send_put(piece, answer);
    self->stream_next_put();
  };
  link_->add(run_lanes(std::move(write_next))
                 .then([go_on] { go_on(true); },
                       [go_on, answer = answer](kj::Exception&& e) {
                         answer(error(to_status(e)));
                         go_on(false);
                       }));
}

void RemoteSpace::send_put(const PutPiece& piece, const Answer<std::vector<PutOutcome>>& answer) {
  const std::size_t blocks = piece.staged->size();
  constexpr std::size_t bytes_a_block = 2 * sizeof(std::uint64_t);
  auto request = remote_.putRequest(
      capnp::MessageSize{transfer_request_words +
                             (blocks * (bytes_a_block + descriptor_.block_tokens * sizeof(Token))) /
                                 sizeof(capnp::word),
                         0});
  const bool wanted = answer.call().while_wanted([&] { request.setTokens(pack(piece.tokens)); });
  if (!wanted) return;
  request.setParent(pack(piece.parent));
  request.setOffsets(pack(std::span<const std::uint64_t>(piece.staged->offsets())));
  request.setChecksums(pack(std::span<const std::uint64_t>(piece.checksums)));
  // The daemon reads what is staged until it has answered.
  link_->add(request.send().then(
      [answer, staged = piece.staged](auto&& response) {
        answer(read_outcomes(response.getOutcomes(), staged->size()));
      },
      [answer, staged = piece.staged](kj::Exception&& e) { answer(error(to_status(e))); }));
}

void RemoteSpace::get(const GetPiece& piece, Answer<std::vector<GotBlock>> answer) {
  if (!is_current(*piece.staged)) return;
  auto request = remote_.getRequest(capnp::MessageSize{
      transfer_request_words +
          (piece.staged->size() * (sizeof(BlockKey) + sizeof(std::uint64_t))) / sizeof(capnp::word),
      0});
  if (!answer.call().while_wanted([&] { request.setKeys(pack(piece.keys)); })) return;
  request.setOffsets(pack(std::span<const std::uint64_t>(piece.staged->offsets())));
  request.setPrefillTokensPerSecond(piece.options.prefill_tokens_per_second);
  request.setWaitMs(static_cast<std::uint32_t>(
      std::clamp<std::chrono::milliseconds::rep>(piece.options.wait.count(), 0, UINT32_MAX)));
  request.setBudgetMs(ms_until(piece.deadline));
  link_->add(request.send().then(
      [weak = weak_from_this(), piece, answer](auto&& response) -> kj::Promise<void> {
        const auto self = weak.lock();
        auto got = read_got(response, piece.staged->size());
        if (!got || piece.staged->area()->data()) {
          answer(std::move(got));
          return kj::READY_NOW;
        }
        if (!self || !self->is_current(*piece.staged)) return kj::READY_NOW;
        return self->read_payload(piece, std::move(*got), answer);
      },
      [answer, staged = piece.staged](kj::Exception&& e) { answer(error(to_status(e))); }));
}

kj::Promise<void> RemoteSpace::read_payload(const GetPiece& piece, std::vector<GotBlock> got,
                                            const Answer<std::vector<GotBlock>>& answer) {
  auto read_next = [piece, answer, staging = link_->staging(),
                    cursor = PayloadCursor(got.size(), descriptor_.block_bytes,
                                           piece.staged->area()->max_piece_bytes())]() mutable
      -> kj::Maybe<kj::Promise<void>> {
    const auto next = cursor.next();
    // Nothing more is asked for when nobody waits.
    if (!next || !answer.call().while_wanted([] {})) return nullptr;
    auto request = staging.readRequest(capnp::MessageSize{transfer_request_words, 0});
    request.setOffset(piece.staged->offsets()[next->block] + next->at);
    request.setBytes(next->bytes);
    return request.send().then([piece, answer, next = *next](auto&& response) {
      const auto data = response.getData();
      if (data.size() != next.bytes) {
        answer(not_understood());
        return;
      }
      answer.call().while_wanted([&] {
        std::memcpy(piece.destinations[next.block] + next.at, data.begin(), data.size());
      });
    });
  };
  auto shared_got = std::make_shared<std::vector<GotBlock>>(std::move(got));
  return run_lanes(std::move(read_next))
      .then([answer, shared_got] { answer(std::move(*shared_got)); },
            [answer](kj::Exception&& e) { answer(error(to_status(e))); });
}

}  // namespace terrace::client
