// Payloads copied out of the cache, verified, without moving any block: for operators.
#include "storage/cache/impl.h"

namespace terrace::storage {

void TieredCache::Impl::read_block(const BlockKey& key,
                                   std::function<void(Result<BlockPayload>)> done) {
  queue_block_read({.key = key, .done = std::move(done)});
}

void TieredCache::Impl::check_copy(const BlockKey& key, Tier tier, bool remove,
                                   std::function<void(CopyCheck)> done) {
  queue_block_read(
      {.key = key, .payload = {.tier = tier}, .checked = std::move(done), .remove = remove});
}

void TieredCache::Impl::queue_block_read(BlockRead read) {
  if (block_reads_waiting_.size() >= max_block_reads_waiting) {
    read.problem = Status(StatusCode::resource_exhausted, "too many blocks are being read already");
    return end_block_read(std::move(read), {}, false);
  }
  block_reads_waiting_.push_back(std::move(read));
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
  const bool too_old = block && !read.checked && expired(*block);
  while (block && !read.checked && tier < Tier::redis && !block->has(tier))
    tier = static_cast<Tier>(static_cast<unsigned>(tier) + 1);
  if (!block || too_old || tier >= Tier::redis || !block->has(tier))
    return end_block_read(std::move(read), {}, false);
  const SpaceEntry& space = space_of(*block);
  const std::size_t bytes = space.descriptor.block_bytes;
  read.payload.block.bytes = bytes;
  if (!read.buffer && (!read.checked || tier == Tier::disk)) {
    read.payload.block = describe(*block);
    read.buffer = std::make_shared<AlignedBuffer>();
    read.buffer->ensure(bytes);
  }
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
    request.destination = read.buffer->span().first(bytes);
    request.leave_corrupt = !read.remove;
    block_reads_.emplace(request.ticket, std::move(read));
    disk_->read(std::move(request));
    return;
  }
  Slot& source = *(tier == Tier::device ? block->device : block->host);
  begin_use(source);
  const Ticket ticket = new_ticket({Operation::Kind::read, block, &source, nullptr});
  std::byte* const to = read.buffer ? read.buffer->data() : nullptr;
  block_reads_.emplace(ticket, std::move(read));
  if (to)
    accelerator_.copy_async(ticket, to, bytes_of(source));
  else
    accelerator_.checksum_async(ticket, bytes_of(source));
}

void TieredCache::Impl::finish_block_read(Ticket ticket, const Operation& operation,
                                          const Status& status, std::uint64_t checksum,
                                          const std::string& place) {
  auto node = block_reads_.extract(ticket);
  BlockRead& read = node.mapped();
  const Tier tier = read.payload.tier;
  read.problem = status;
  std::string found_at = place;
  bool removed = false;
  if (Slot* const source = operation.slot) {
    if (status.ok() && checksum != source->checksum) {
      read.problem =
          Status(StatusCode::corruption, std::string("the bytes in the ") + to_string(tier) +
                                             " tier are not what their checksum says");
      found_at = std::string("slot at ") + std::to_string(source->offset);
      removed = read.remove && source->block;
      if (removed) quarantine(*source);
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
    const bool corrupt = status.code() == StatusCode::corruption;
    if (!status.ok()) ++(corrupt ? counters(tier).corruptions : counters(tier).failures);
    removed = corrupt && read.remove;
    if ((removed || status.code() == StatusCode::not_found) && block.on_disk())
      set_disk(block, DiskCopy::none, 0);
    else
      settle(block, was_hole);
  }
  if (!read.problem.ok() && !read.checked) {
    read.payload.tier = static_cast<Tier>(static_cast<unsigned>(tier) + 1);
    return start_block_read(std::move(read));
  }
  read.payload.checksum = checksum;
  end_block_read(std::move(read), found_at, removed);
}

void TieredCache::Impl::end_block_read(BlockRead read, const std::string& place, bool removed) {
  if (read.checked)
    return read.checked({.status = std::move(read.problem),
                         .place = place,
                         .bytes = read.payload.block.bytes,
                         .removed = removed});
  if (!read.problem.ok()) return read.done(error(std::move(read.problem)));
  read.payload.bytes = {read.buffer, read.buffer->data()};
  read.done(std::move(read.payload));
}

}  // namespace terrace::storage
