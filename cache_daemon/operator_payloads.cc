// Payloads of blocks as operators' tools read them: in pieces, each asked for when the one before
// has arrived.
#include <kj/debug.h>

#include <algorithm>
#include <memory>

#include "cache_daemon/limits.h"
#include "cache_daemon/operator_answers.h"
#include "cache_daemon/operator_server.h"
#include "protocol/packed.h"

namespace terrace::daemon {
namespace {

// Whether that was the last piece.
bool write_piece(const storage::BlockPayload& payload,
                 protocol::Operator::ReadBlockParams::Reader of,
                 protocol::Operator::ReadBlockResults::Builder to) {
  const std::uint64_t size = payload.block.bytes;
  const std::uint64_t offset = std::min<std::uint64_t>(of.getOffset(), size);
  const std::uint64_t bytes =
      std::min({std::uint64_t{of.getBytes()}, std::uint64_t{max_piece_bytes}, size - offset});
  write_block(payload.block, to.initBlock());
  to.setChecksum(payload.checksum);
  to.setData(protocol::pack(
      std::span<const std::byte>(payload.bytes.get() + offset, static_cast<std::size_t>(bytes))));
  return offset + bytes == size;
}

}  // namespace

kj::Promise<void> OperatorServer::readBlock(ReadBlockContext call) {
  const BlockKey key = read_key(call.getParams().getKey());
  require_block(key);
  if (last_read_ && last_read_->block.key == key) {
    if (write_piece(*last_read_, call.getParams(), call.getResults())) last_read_.reset();
    return kj::READY_NOW;
  }
  if (block_reads_ >= max_block_reads_at_once)
    return refusal({StatusCode::resource_exhausted, "too many blocks are being read already"});
  auto outcome = kj::newPromiseAndFulfiller<storage::BlockPayload>();
  // A function must be copyable.
  auto fulfiller = std::make_shared<kj::Own<kj::PromiseFulfiller<storage::BlockPayload>>>(
      kj::mv(outcome.fulfiller));
  ++block_reads_;
  context_.cache.read_block(key, [fulfiller](Result<storage::BlockPayload> payload) {
    if (payload)
      (*fulfiller)->fulfill(std::move(*payload));
    else
      (*fulfiller)->reject(refusal(payload.error()));
  });
  return outcome.promise
      .then([this, call](storage::BlockPayload payload) mutable {
        if (!write_piece(payload, call.getParams(), call.getResults()))
          last_read_ = std::move(payload);
      })
      .attach(kj::defer([this] { --block_reads_; }));
}

}  // namespace terrace::daemon
