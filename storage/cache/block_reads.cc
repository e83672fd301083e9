// Payloads copied out of the cache, verified, without moving any block: for operators.
#include "storage/cache/impl.h"

namespace terrace::storage {

void TieredCache::Impl::read_block(const BlockKey& key,
                                   std::function<void(Result<BlockPayload>)> done) {
  if (block_reads_waiting_.size() >= max_block_reads_waiting)
    return done(error(StatusCode::resource_exhausted, "too many blocks are being read already"));
  BlockRead& read = block_reads_waiting_.emplace_back();
  read.key = key;
  read.done = std::move(done);
  pump_block_reads();
}

void TieredCache::Impl::pump_block_reads() {
  while (!block_reads_waiting_.empty() && block_reads_.size() < max_block_reads_in_flight) {
    BlockRead read = std::move(block_reads_waiting_.front());
    block_reads_waiting_.pop_front();
    read.problem =
        Status(StatusCode::not_found, "this host has no copy of block " + read.key.hex());
    start_block_read(std::move(read));
  }
}

void TieredCache::Impl::start_block_read(BlockRead read) {
  Block* const block = catalog_.find(read.key);
  Tier& tier = read.payload.tier;
  while (block && tier < Tier::redis && !block->has(tier))
    tier = static_cast<Tier>(static_cast<unsigned>(tier) + 1);
  if (!block || tier >= Tier::redis) return read.done(error(read.problem));
  const SpaceEntry& space = space_of(*block);
  const std::size_t bytes = space.descriptor.block_bytes;
  if (!read.buffer) {
    read.payload.block = describe(*block);
    read.buffer = std::make_shared<AlignedBuffer>();
    read.buffer->ensure(bytes);
  }
  const std::span<std::byte> destination = read.buffer->span().first(bytes);
  if (tier == Tier::disk) {
    ++block->disk_reads;
    ++disk_reads_in_flight_;
    refresh(*block);
    DiskRead request;
    request.ticket = new_ticket({Operation::Kind::read, block, nullptr, nullptr});
    request.space = space.digest;
    request.key = block->key;
    request.parent = block->parent ? block->parent->key : space.digest;
    request.tokens.assign(block->tokens().begin(), block->tokens().end());
    request.destination = destination;
    block_reads_.emplace(request.ticket, std::move(read));
    disk_->read(std::move(request));
  } else {
    Slot& source = *(tier == Tier::device ? block->device : block->host);
    begin_use(source);
    const Ticket ticket = new_ticket({Operation::Kind::read, block, &source, nullptr});
    block_reads_.emplace(ticket, std::move(read));
    accelerator_.copy_async(ticket, destination.data(), bytes_of(source));
  }
}

void TieredCache::Impl::finish_block_read(Ticket ticket, const Operation& operation,
                                          const Status& status, std::uint64_t checksum) {
  auto node = block_reads_.extract(ticket);
  BlockRead& read = node.mapped();
  const Tier tier = read.payload.tier;
  read.problem = status;
  if (Slot* const source = operation.slot) {
    if (status.ok() && checksum != source->checksum) {
      read.problem =
          Status(StatusCode::corruption, std::string("the bytes in the ") + to_string(tier) +
                                             " tier are not what their checksum says");
      if (source->block) quarantine(*source);
    } else if (!status.ok()) {
      ++counters(tier).failures;
    }
    end_use(*source);
  } else {
    // It stays known until here: see settle().
    Block& block = *operation.block;
    const bool was_hole = block.hole();
    --block.disk_reads;
    --disk_reads_in_flight_;
    const bool gone =
        status.code() == StatusCode::corruption || status.code() == StatusCode::not_found;
    if (!status.ok())
      ++(status.code() == StatusCode::corruption ? counters(tier).corruptions
                                                 : counters(tier).failures);
    if (gone && block.on_disk())
      set_disk(block, DiskCopy::none, 0);
    else
      settle(block, was_hole);
  }
  if (!read.problem.ok()) {
    read.payload.tier = static_cast<Tier>(static_cast<unsigned>(tier) + 1);
    return start_block_read(std::move(read));
  }
  read.payload.checksum = checksum;
  read.payload.bytes = {read.buffer, read.buffer->data()};
  read.done(std::move(read.payload));
}

}  // namespace terrace::storage
