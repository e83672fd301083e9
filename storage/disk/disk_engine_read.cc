// Reads: one READV into {header, destination}, then everything is verified before anyone is told.
#include <spdlog/spdlog.h>

#include <string>

#include "storage/disk/disk_engine.h"
#include "storage/disk/disk_tags.h"

namespace terrace::storage {

void DiskEngine::start_reads() {
  while (!ready_reads_.empty() && !idle_reads_.empty()) {
    ReadOperation* const operation = idle_reads_.back();
    idle_reads_.pop_back();
    operation->request = std::move(ready_reads_.front());
    ready_reads_.pop_front();

    const DiskRead& request = operation->request;
    const auto located = located_.find(request.key);
    if (!located) {
      finish_read(operation, error(StatusCode::not_found, "the block is not on disk"));
      continue;
    }
    operation->located = *located;
    // Where the record is read to the destination itself, it must have room for it.
    if (located->codec == Codec::raw &&
        record_units(request.destination.size()) != located->extent.units) {
      finish_read(operation, error(StatusCode::invalid_argument,
                                   "the block does not have " +
                                       std::to_string(request.destination.size()) + " bytes"));
      continue;
    }
    operation->prepare();
    ring_->submit({RingOperation::Kind::read, data_->fd(located->extent.file),
                   located->extent.offset_bytes(), operation->buffers.iovecs(),
                   make_tag(TagKind::read, operation->slot)});
  }
}

void DiskEngine::read_arrived(ReadOperation* operation, std::int64_t result) {
  const Extent& extent = operation->located.extent;
  if (result < 0)
    return finish_read(operation,
                       error(errno_status(static_cast<int>(-result), "could not read a record")));
  if (static_cast<std::uint64_t>(result) != operation->buffers.bytes()) {
    // A file that was cut never gets its bytes back; anything else may pass.
    const auto bytes = data_->current_bytes(extent.file);
    const bool cut = bytes && *bytes < extent.offset_bytes() + extent.bytes();
    return finish_read(operation,
                       error(cut ? StatusCode::corruption : StatusCode::io_error,
                             cut ? "the data file ends inside the record" : "short read"));
  }
  auto header = operation->verify_header();
  if (!header) return finish_read(operation, error(header.error()));
  if (header->codec == Codec::raw)
    return finish_read(operation, operation->verify_payload(*header, nullptr));
  codec_threads_->post([this, operation, header = std::move(*header)](unsigned worker) {
    auto outcome = operation->verify_payload(header, codec_of(worker, header.codec));
    post([this, operation, outcome = std::move(outcome)] { finish_read(operation, outcome); });
  });
}

void DiskEngine::finish_read(ReadOperation* operation, Result<std::uint64_t> outcome) {
  const BlockKey key = operation->request.key;
  DiskCompletion completion;
  completion.ticket = operation->request.ticket;
  if (outcome) {
    completion.payload_checksum = *outcome;
  } else {
    completion.status = outcome.error();
    const Extent& extent = operation->located.extent;
    completion.place = data_->path(extent.file) + " at " + std::to_string(extent.offset_bytes());
    if (completion.status.code() == StatusCode::corruption && !operation->request.leave_corrupt) {
      spdlog::warn("disk: block {} does not verify ({}); it is dropped", key.hex(),
                   completion.status.message());
      quarantine(key, extent);
    }
  }
  complete(std::move(completion));
  operation->buffers.trim();
  idle_reads_.push_back(operation);
  --gates_.at(key).readers;
  pump(key);
}

void DiskEngine::quarantine(const BlockKey& key, const Extent& extent) {
  const auto located = located_.find(key);
  // Another read of the same record may have come first.
  if (!located || located->extent != extent) return;
  located_.erase(key);
  pending_recency_.erase(key);
  gates_.at(key).doomed.push_back(extent);
  quarantined_records_.fetch_add(1);
}

}  // namespace terrace::storage
