// Payloads of blocks as operators' tools read and bring them: in pieces, each asked for or sent
// when the one before has arrived.
#include <kj/debug.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "cache_daemon/limits.h"
#include "cache_daemon/operator_answers.h"
#include "cache_daemon/operator_server.h"
#include "protocol/descriptor.h"
#include "protocol/packed.h"
#include "storage/disk/aligned_buffer.h"

namespace terrace::daemon {

class OperatorServer::PayloadPlace {
 public:
  // Null where there is no place.
  static std::shared_ptr<PayloadPlace> take(Context& context) {
    if (*context.operator_payloads >= max_operator_payloads) return nullptr;
    return std::make_shared<PayloadPlace>(context.operator_payloads);
  }
  explicit PayloadPlace(std::shared_ptr<std::size_t> taken) : taken_(std::move(taken)) {
    ++*taken_;
  }
  ~PayloadPlace() { --*taken_; }
  PayloadPlace(const PayloadPlace&) = delete;
  PayloadPlace& operator=(const PayloadPlace&) = delete;

 private:
  // The cache keeps it with what it reads, and ends after the context.
  std::shared_ptr<std::size_t> taken_;
};

struct OperatorServer::UnfinishedImport {
  RecordHeader header;
  std::shared_ptr<storage::AlignedBuffer> buffer = std::make_shared<storage::AlignedBuffer>();
  std::uint64_t received_bytes = 0;
  std::shared_ptr<PayloadPlace> place;
};

namespace {

Status no_place() {
  return {StatusCode::resource_exhausted, "too many blocks are being read or imported already"};
}

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
  to.setCreatedUnixMs(payload.block.created_unix_ms);
  to.setData(protocol::pack(
      std::span<const std::byte>(payload.bytes.get() + offset, static_cast<std::size_t>(bytes))));
  return offset + bytes == size;
}

// With what is around it a piece must fit into a message.
std::size_t max_import_piece_bytes(const Context& context) {
  return std::min<std::size_t>(max_piece_bytes, context.config.limits.max_message_bytes / 2);
}

void write_outcome(const Context& context, const storage::ImportResult& result,
                   protocol::Operator::ImportBlockResults::Builder to) {
  to.setOutcome(static_cast<std::uint8_t>(result.outcome));
  to.setReason(result.reason.c_str());
  to.setMaxPieceBytes(static_cast<std::uint32_t>(max_import_piece_bytes(context)));
}

}  // namespace

kj::Promise<void> OperatorServer::readBlock(ReadBlockContext call) {
  const BlockKey key = read_key(call.getParams().getKey());
  require_block(key);
  if (last_read_ && last_read_->block.key == key) {
    if (write_piece(*last_read_, call.getParams(), call.getResults())) {
      last_read_.reset();
      last_read_place_.reset();
    }
    return kj::READY_NOW;
  }
  if (block_reads_ >= max_block_reads_at_once) return refusal(no_place());
  auto place = PayloadPlace::take(context_);
  if (!place) return refusal(no_place());
  auto outcome = kj::newPromiseAndFulfiller<storage::BlockPayload>();
  // A function must be copyable.
  auto fulfiller = std::make_shared<kj::Own<kj::PromiseFulfiller<storage::BlockPayload>>>(
      kj::mv(outcome.fulfiller));
  ++block_reads_;
  context_.cache.read_block(key, [fulfiller, place](Result<storage::BlockPayload> payload) {
    if (payload)
      (*fulfiller)->fulfill(std::move(*payload));
    else
      (*fulfiller)->reject(refusal(payload.error()));
  });
  return outcome.promise
      .then([this, call, place](storage::BlockPayload payload) mutable {
        if (write_piece(payload, call.getParams(), call.getResults())) return;
        last_read_ = std::move(payload);
        last_read_place_ = std::move(place);
      })
      .attach(kj::defer([this] { --block_reads_; }));
}

kj::Promise<void> OperatorServer::importSpace(ImportSpaceContext call) {
  const auto descriptor = protocol::read_descriptor(call.getParams().getDescriptor());
  if (!descriptor) return refusal(descriptor.error());
  if (!may_see_tenant(descriptor->tenant))
    return refusal({StatusCode::failed_precondition, "it is the space of another tenant"});
  (void)open_space_for(context_.cache, *descriptor, peer_->grant->tenant, context_.config.limits);
  call.getResults().setDigest(protocol::pack(descriptor->digest()));
  return kj::READY_NOW;
}

kj::Promise<void> OperatorServer::importBlock(ImportBlockContext call) {
  const auto params = call.getParams();
  const auto bytes = protocol::unpack<std::byte>(params.getHeader());
  const auto data = protocol::unpack<std::byte>(params.getData());
  KJ_REQUIRE(bytes.has_value() && data.has_value() && data->size() <= max_piece_bytes,
             "a piece may not be that large");
  const auto header = decode_record_header(*bytes);
  if (!header || header->codec != Codec::raw) {
    import_.reset();
    write_outcome(context_,
                  {ImportOutcome::refused,
                   header ? "its payload is not stored as it is" : header.error().message()},
                  call.getResults());
    return kj::READY_NOW;
  }
  (void)require_space(header->space);
  if (params.getOffset() == 0) {
    import_.reset();
    const storage::ImportResult wanted = context_.cache.check_import(*header);
    if (wanted.outcome != ImportOutcome::wanted || data->empty()) {
      write_outcome(context_, wanted, call.getResults());
      return kj::READY_NOW;
    }
    auto place = PayloadPlace::take(context_);
    if (!place) return refusal(no_place());
    import_ = std::make_shared<UnfinishedImport>();
    import_->header = *header;
    import_->buffer->ensure(header->payload_bytes);
    import_->place = std::move(place);
  }
  KJ_REQUIRE(import_ != nullptr && import_->header == *header &&
                 import_->received_bytes == params.getOffset() && !data->empty() &&
                 data->size() <= header->payload_bytes - import_->received_bytes,
             "no piece of a block can come here");
  std::memcpy(import_->buffer->data() + import_->received_bytes, data->data(), data->size());
  import_->received_bytes += data->size();
  if (import_->received_bytes < header->payload_bytes) {
    write_outcome(context_, {ImportOutcome::wanted, {}}, call.getResults());
    return kj::READY_NOW;
  }
  const auto whole = std::exchange(import_, nullptr);
  auto outcome = kj::newPromiseAndFulfiller<storage::ImportResult>();
  auto fulfiller = std::make_shared<kj::Own<kj::PromiseFulfiller<storage::ImportResult>>>(
      kj::mv(outcome.fulfiller));
  context_.cache.import_block(
      whole->header, {whole, whole->buffer->data()},
      [fulfiller](storage::ImportResult result) { (*fulfiller)->fulfill(std::move(result)); });
  return outcome.promise.then([this, call](storage::ImportResult result) mutable {
    write_outcome(context_, result, call.getResults());
  });
}

}  // namespace terrace::daemon
