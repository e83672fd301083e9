#include "storage/device/staging.h"

#include <algorithm>
#include <utility>

namespace terrace::storage {

void StagingAccelerator::start_staged_copy(std::uint64_t ticket, std::byte* to,
                                           std::span<const std::byte> from) {
  accelerator_.copy_async(ticket | staged_bit, to, from);
}

void StagingAccelerator::pump() {
  taken_.clear();
  accelerator_.take_completions(taken_);
  for (CopyCompletion& completion : taken_) {
    if (!(completion.ticket & staged_bit)) {
      of_the_cache_.push_back(std::move(completion));
    } else if (on_copied_) {
      completion.ticket &= ~staged_bit;
      on_copied_(completion);
    }
  }
}

void StagingAccelerator::take_completions(std::vector<CopyCompletion>& out) {
  pump();
  out.insert(out.end(), std::make_move_iterator(of_the_cache_.begin()),
             std::make_move_iterator(of_the_cache_.end()));
  of_the_cache_.clear();
}

StagedDisk::StagedDisk(std::unique_ptr<DiskTier> disk, StagingAccelerator& accelerator,
                       std::size_t max_staging_bytes)
    : disk_(std::move(disk)), accelerator_(accelerator), max_staging_bytes_(max_staging_bytes) {
  accelerator_.set_on_copied([this](const CopyCompletion& completion) { copied(completion); });
}

StagedDisk::~StagedDisk() {
  accelerator_.set_on_copied(nullptr);
  // The disk's threads and the device's let go of the buffers before the buffers go.
  disk_.reset();
  accelerator_.synchronize();
  for (AlignedBuffer* buffer : registered_) accelerator_.unregister_host_memory(buffer->span());
}

void StagedDisk::write(DiskWrite request) {
  if (!is_device(request.payload.data())) return disk_->write(std::move(request));
  ++writes_in_staging_;
  Request staged;
  staged.is_write = true;
  staged.write = std::move(request);
  waiting_.push_back(std::move(staged));
  start_waiting();
}

void StagedDisk::read(DiskRead request) {
  if (!is_device(request.destination.data())) return disk_->read(std::move(request));
  Request staged;
  staged.device = request.destination;
  staged.read = std::move(request);
  waiting_.push_back(std::move(staged));
  start_waiting();
}

void StagedDisk::erase(const BlockKey& key) {
  // Of a write that the disk does not know of yet, this comes after.
  bool held_back = false;
  const auto mark = [&](Request& request) {
    if (!request.is_write || request.write.key != key) return;
    request.erased = held_back = true;
  };
  for (Request& request : waiting_) mark(request);
  for (auto& [ticket, request] : under_way_)
    if (!request.with_disk) mark(request);
  if (!held_back) disk_->erase(key);
}

void StagedDisk::touch(std::span<const BlockKey> keys, std::uint64_t recency) {
  // The disk would not know of what it is yet to be given.
  const auto raise = [&](Request& request) {
    if (request.is_write && std::ranges::find(keys, request.write.key) != keys.end())
      request.write.recency = std::max(request.write.recency, recency);
  };
  if (writes_in_staging_ > 0) {
    for (Request& request : waiting_) raise(request);
    for (auto& [ticket, request] : under_way_)
      if (!request.with_disk) raise(request);
  }
  disk_->touch(keys, recency);
}

void StagedDisk::flush(Ticket ticket) {
  if (writes_in_staging_ > 0) {
    flushes_.push_back(ticket);
  } else {
    disk_->flush(ticket);
  }
}

void StagedDisk::set_notify(std::function<void()> notify) {
  notify_ = notify;
  disk_->set_notify(std::move(notify));
}

void StagedDisk::start_waiting() {
  while (!waiting_.empty()) {
    AlignedBuffer* buffer = take_buffer(waiting_.front().bytes());
    if (!buffer) return;
    Request request = std::move(waiting_.front());
    waiting_.pop_front();
    request.buffer = buffer;
    start(std::move(request));
  }
}

void StagedDisk::start(Request request) {
  const Ticket ticket = request.is_write ? request.write.ticket : request.read.ticket;
  Request& staged = under_way_.emplace(ticket, std::move(request)).first->second;
  if (staged.is_write) {
    accelerator_.start_staged_copy(ticket, staged.buffer->data(), staged.write.payload);
  } else {
    DiskRead read = staged.read;
    read.destination = staged.buffer->span().first(staged.device.size());
    disk_->read(std::move(read));
  }
}

void StagedDisk::copied(const CopyCompletion& completion) {
  const auto found = under_way_.find(completion.ticket);
  if (found == under_way_.end()) return;
  Request& request = found->second;
  DiskCompletion result;
  result.ticket = completion.ticket;
  result.status = completion.status;
  if (request.is_write) {
    if (result.status.ok() && completion.checksum != request.write.payload_checksum)
      result.status = Status(StatusCode::corruption, "device memory is not what was sealed");
    const bool good = result.status.ok();
    leave_staging(request, good);
    if (good) return;
  } else {
    // What the disk has is good: not corruption, which would drop it.
    if (result.status.ok() && completion.checksum != request.checksum)
      result.status = Status(StatusCode::io_error, "a copy to the device came out wrong");
    result.payload_checksum = completion.checksum;
  }
  end(found, std::move(result));
  // Whoever takes the disk's completions may have done so already.
  if (notify_) notify_();
}

void StagedDisk::leave_staging(Request& request, bool good) {
  const BlockKey key = request.write.key;
  request.with_disk = true;
  if (good) {
    DiskWrite write = request.write;
    write.payload = request.buffer->span().first(write.payload.size());
    disk_->write(std::move(write));
  }
  if (request.erased) disk_->erase(key);
  if (--writes_in_staging_ == 0)
    for (const Ticket ticket : std::exchange(flushes_, {})) disk_->flush(ticket);
}

void StagedDisk::take_completions(std::vector<DiskCompletion>& out) {
  accelerator_.pump();
  from_disk_.clear();
  disk_->take_completions(from_disk_);
  for (DiskCompletion& completion : from_disk_) {
    const auto found = under_way_.find(completion.ticket);
    if (found == under_way_.end()) {
      completions_.push_back(std::move(completion));
      continue;
    }
    Request& request = found->second;
    if (request.is_write || !completion.status.ok()) {
      end(found, std::move(completion));
      continue;
    }
    request.checksum = completion.payload_checksum;
    accelerator_.start_staged_copy(completion.ticket, request.device.data(),
                                   request.buffer->span().first(request.device.size()));
  }
  out.insert(out.end(), std::make_move_iterator(completions_.begin()),
             std::make_move_iterator(completions_.end()));
  completions_.clear();
}

void StagedDisk::end(std::unordered_map<Ticket, Request>::iterator request,
                     DiskCompletion completion) {
  spare_.push_back(request->second.buffer);
  under_way_.erase(request);
  completions_.push_back(std::move(completion));
  start_waiting();
}

AlignedBuffer* StagedDisk::take_buffer(std::size_t bytes) {
  const auto fits = std::ranges::find_if(spare_, [&](const AlignedBuffer* buffer) {
    return buffer->size() >= bytes && buffer->size() < 2 * std::max<std::size_t>(bytes, 4096);
  });
  if (fits != spare_.end()) {
    AlignedBuffer* const buffer = *fits;
    spare_.erase(fits);
    return buffer;
  }
  // Those of another model's blocks make room.
  if (staging_bytes_ + bytes > max_staging_bytes_) drop_spare_buffers();
  if (staging_bytes_ + bytes > max_staging_bytes_ && !buffers_.empty()) return nullptr;
  auto buffer = std::make_unique<AlignedBuffer>();
  buffer->ensure(bytes);
  staging_bytes_ += buffer->size();
  // Without it copies are slower and as right.
  if (accelerator_.register_host_memory(buffer->span()).ok()) registered_.insert(buffer.get());
  buffers_.push_back(std::move(buffer));
  return buffers_.back().get();
}

void StagedDisk::drop_spare_buffers() {
  for (AlignedBuffer* buffer : std::exchange(spare_, {})) {
    if (registered_.erase(buffer) > 0) accelerator_.unregister_host_memory(buffer->span());
    staging_bytes_ -= buffer->size();
    std::erase_if(buffers_, [&](const auto& one) { return one.get() == buffer; });
  }
}

}  // namespace terrace::storage
