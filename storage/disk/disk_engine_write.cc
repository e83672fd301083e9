// Writes: verify and encode, find room, one WRITEV; then they wait for a sync
// (disk_engine_sync.cc).
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "core/space_file.h"
#include "storage/disk/disk_engine.h"
#include "storage/disk/disk_tags.h"

namespace terrace::storage {

Status DiskEngine::persist_space(const BlockKey& digest) {
  if (durable_spaces_.contains(digest)) return {};
  const auto space = spaces_.find(digest);
  if (space == spaces_.end())
    return Status(StatusCode::failed_precondition, "the space of the block is not known");
  const std::string path =
      spaces_directory(options_.directory) + "/" + space_file_name(space->second);
  Status written = world_.files->write_file(path, encode_space(space->second));
  if (written.ok()) durable_spaces_.insert(digest);
  return written;
}

Status DiskEngine::check_write(const DiskWrite& request) {
  const auto invalid = [](const char* message) {
    return Status(StatusCode::invalid_argument, message);
  };
  if (request.payload.empty() || request.payload.size() > max_block_bytes)
    return invalid("a block of no bytes or of more than a block can have");
  if (request.tokens.empty() || request.tokens.size() > max_block_tokens)
    return invalid("a block of no tokens or of more than a block can have");
  if (derive_block_key(request.parent, request.tokens) != request.key)
    return invalid("the key is not the key of the tokens");
  return persist_space(request.space);
}

void DiskEngine::start_writes() {
  while (!ready_writes_.empty() && !idle_writes_.empty() &&
         write_bytes_in_flight_ < max_write_bytes_in_flight) {
    Waiting waiting = std::move(ready_writes_.front());
    ready_writes_.pop_front();
    DiskWrite& request = std::get<DiskWrite>(waiting.request);
    const BlockKey key = request.key;
    DiskCompletion completion;
    completion.ticket = request.ticket;
    if (const auto located = located_.find(key)) {
      // The same key is the same block: it is durable already.
      note_recency(key, request.recency);
      completion.payload_checksum = request.payload_checksum;
      completion.disk_bytes = located->extent.bytes();
      finish_write(key, waiting.number, std::move(completion));
      continue;
    }
    if (completion.status = check_write(request); !completion.status.ok()) {
      finish_write(key, waiting.number, std::move(completion));
      continue;
    }
    WriteOperation* const operation = idle_writes_.back();
    idle_writes_.pop_back();
    operation->request = std::move(request);
    write_bytes_in_flight_ += operation->request.payload.size();
    operation->number = waiting.number;
    const std::int64_t now_unix_ms = world_.clock->unix_ms();
    if (options_.codec == Codec::raw) {
      write_prepared(operation, operation->prepare(nullptr, 0, now_unix_ms));
      continue;
    }
    const std::size_t element_bytes =
        element_bytes_of(spaces_.at(operation->request.space).kv_dtype);
    codec_threads_->post([this, operation, element_bytes, now_unix_ms](unsigned worker) {
      const Status status =
          operation->prepare(codec_of(worker, options_.codec), element_bytes, now_unix_ms);
      post([this, operation, status] { write_prepared(operation, status); });
    });
  }
}

void DiskEngine::write_prepared(WriteOperation* operation, Status status) {
  if (status.ok()) return place_write(operation);
  DiskCompletion completion;
  completion.ticket = operation->request.ticket;
  completion.status = std::move(status);
  const BlockKey key = operation->request.key;
  const std::uint64_t number = operation->number;
  end_write_operation(operation);
  finish_write(key, number, std::move(completion));
}

void DiskEngine::place_write(WriteOperation* operation) {
  if (Status placed = allocate(*operation); !placed.ok()) {
    // Erases that were asked for before this write may free enough.
    if (placed.code() == StatusCode::no_space && freeing_units_ > 0)
      return waiting_for_room_.push_back(operation);
    return write_prepared(operation, std::move(placed));
  }
  if (Status encoded = encode_record_header(operation->header, operation->buffers.header());
      !encoded.ok()) {
    allocator_.free(operation->extent);
    return write_prepared(operation, std::move(encoded));
  }
  const Extent& extent = operation->extent;
  ring_->submit({RingOperation::Kind::write, data_->fd(extent.file), extent.offset_bytes(),
                 operation->buffers.iovecs(), make_tag(TagKind::write, operation->slot)});
}

Status DiskEngine::allocate(WriteOperation& operation) {
  const std::uint32_t units = operation.units();
  const std::uint64_t capacity_units = capacity_bytes_ / extent_unit_bytes;
  operation.in_window = false;
  for (;;) {
    Status problem(StatusCode::no_space, "the disk tier is at its capacity");
    if (used_units() + units <= capacity_units) {
      if (const auto extent = window_.allocate(units)) {
        operation.extent = *extent;
        operation.in_window = true;
        return {};
      }
      auto extent = allocate_outside_window(units);
      if (!extent && extent.error().code() == StatusCode::no_space && window_.free_units() > 0) {
        // Together with what is around it there may be a run that is long enough.
        window_.dissolve(allocator_);
        extent = allocate_outside_window(units);
      }
      if (extent) {
        operation.extent = *extent;
        return {};
      }
      problem = extent.error();
    }
    if (!wake_resting()) return problem;
  }
}

Result<Extent> DiskEngine::allocate_outside_window(std::uint32_t units) {
  for (;;) {
    if (const auto extent = allocator_.allocate(units)) return *extent;
    const auto file = data_->grow(units * extent_unit_bytes);
    if (!file) return error(file.error());
    allocator_.add_file(*file, data_->units(*file));
  }
}

void DiskEngine::write_arrived(WriteOperation* operation, std::int64_t result) {
  if (result < 0 || static_cast<std::uint64_t>(result) != operation->buffers.bytes()) {
    rest(operation->extent);
    return write_prepared(
        operation, result < 0 ? errno_status(static_cast<int>(-result), "could not write a record")
                              : Status(StatusCode::io_error, "short write"));
  }
  StoredWrite stored;
  stored.ticket = operation->request.ticket;
  stored.number = operation->number;
  stored.payload_checksum = operation->request.payload_checksum;
  stored.recency = operation->request.recency;
  stored.in_window = operation->in_window;
  IndexEntry& entry = stored.entry;
  entry.key = operation->request.key;
  entry.space = operation->request.space;
  entry.parent = operation->request.parent;
  entry.tokens = std::move(operation->request.tokens);
  entry.extent = operation->extent;
  entry.codec = operation->header.codec;
  entry.payload_bytes = operation->header.payload_bytes;
  entry.stored_bytes = operation->header.stored_bytes;
  entry.created_unix_ms = operation->header.created_unix_ms;
  entry.sequence = next_sequence_++;
  stored_writes_.push_back(std::move(stored));
  end_write_operation(operation);
}

void DiskEngine::end_write_operation(WriteOperation* operation) {
  write_bytes_in_flight_ -= operation->request.payload.size();
  operation->in_window = false;
  operation->buffers.trim();
  idle_writes_.push_back(operation);
}

void DiskEngine::finish_write(const BlockKey& key, std::uint64_t number,
                              DiskCompletion completion) {
  complete(std::move(completion));
  outstanding_.erase(number);
  gates_.at(key).writing = false;
  pump(key);
}

void DiskEngine::retry_waiting_for_room() {
  std::deque<WriteOperation*> waiting;
  waiting.swap(waiting_for_room_);
  for (WriteOperation* operation : waiting) place_write(operation);
}

void DiskEngine::rest(const Extent& extent) {
  resting_.push_back(extent);
  resting_units_ += extent.units;
  if (resting_.size() <= max_resting_extents) return;
  allocator_.free(resting_.front());
  resting_units_ -= resting_.front().units;
  resting_.pop_front();
}

bool DiskEngine::wake_resting() {
  if (resting_.empty()) return false;
  for (const Extent& extent : resting_) allocator_.free(extent);
  resting_.clear();
  resting_units_ = 0;
  return true;
}

}  // namespace terrace::storage
