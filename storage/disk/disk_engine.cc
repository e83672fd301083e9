#include "storage/disk/disk_engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>

#include "storage/disk/disk_tags.h"

namespace terrace::storage {

DiskEngine::DiskEngine(const DiskOptions& options, DiskWorld world, std::unique_ptr<Ring> ring,
                       OpenedStore opened)
    : options_(options),
      world_(std::move(world)),
      lock_(std::move(opened.lock)),
      data_(std::move(opened.data)),
      index_(std::move(opened.index)),
      ring_(std::move(ring)),
      allocator_(std::move(opened.allocator)),
      window_(options.fsync
                  ? std::min(max_window_bytes, options.capacity_bytes / 8) / extent_unit_bytes
                  : 0),
      located_(std::move(opened.located)),
      next_sequence_(opened.next_sequence) {
  for (SpaceDescriptor& space : opened.spaces) {
    const BlockKey digest = space.digest();
    durable_spaces_.insert(digest);
    spaces_.emplace(digest, std::move(space));
  }
  for (unsigned i = 0; i < max_reads_in_flight; ++i) {
    read_operations_.push_back(std::make_unique<ReadOperation>());
    read_operations_.back()->slot = i;
    idle_reads_.push_back(read_operations_.back().get());
  }
  for (unsigned i = 0; i < max_writes_in_flight; ++i) {
    write_operations_.push_back(std::make_unique<WriteOperation>());
    write_operations_.back()->slot = i;
    idle_writes_.push_back(write_operations_.back().get());
  }
  zero_page_.ensure(extent_unit_bytes);
  std::memset(zero_page_.data(), 0, extent_unit_bytes);
  zero_iovec_ = {zero_page_.data(), extent_unit_bytes};
  for (unsigned i = 0; i < options_.codec_threads; ++i)
    codecs_.push_back({make_payload_codec(Codec::raw, 0),
                       make_payload_codec(Codec::zstd, options_.zstd_level),
                       make_payload_codec(Codec::planes, options_.zstd_level)});
  limit_data(index_->allocated_bytes());
  used_bytes_ = allocator_.used_units() * extent_unit_bytes;
  direct_ = data_->direct();
  codec_threads_ = world_.make_workers(options_.codec_threads);
  commit_thread_ = world_.make_workers(1);
  thread_ = world_.make_workers(1);
  thread_->loop([this] { return turn(); });
}

DiskEngine::~DiskEngine() {
  {
    const std::lock_guard lock(inbox_mutex_);
    stop_requested_ = true;
  }
  ring_->wake();
  thread_.reset();
  codec_threads_.reset();
  commit_thread_.reset();
  if (Status flushed = index_->flush(); !flushed.ok()) spdlog::warn("disk: {}", flushed.message());
}

void DiskEngine::submit(DiskRequest request) {
  bool first = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    first = inbox_.empty() && posted_.empty();
    inbox_.push_back(std::move(request));
  }
  if (first) ring_->wake();
}

void DiskEngine::post(std::function<void()> function) {
  bool first = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    first = inbox_.empty() && posted_.empty();
    posted_.push_back(std::move(function));
  }
  if (first) ring_->wake();
}

void DiskEngine::take_completions(std::vector<DiskCompletion>& out) {
  const std::lock_guard lock(outbox_mutex_);
  std::move(outbox_.begin(), outbox_.end(), std::back_inserter(out));
  outbox_.clear();
}

void DiskEngine::set_notify(std::function<void()> notify) {
  const std::lock_guard lock(outbox_mutex_);
  notify_ = std::move(notify);
}

DiskUsage DiskEngine::usage() const {
  return {capacity_bytes_.load(), used_bytes_.load(), quarantined_records_.load()};
}

bool DiskEngine::turn() {
  take_inbox();
  start_reads();
  start_writes();
  maybe_start_sync();
  maybe_start_commit();
  start_clears();
  deliver();
  if (stopping_ && idle()) return false;
  arrived_.clear();
  ring_->wait(arrived_, wait_ns());
  for (const RingCompletion& completion : arrived_) handle(completion);
  return true;
}

void DiskEngine::take_inbox() {
  std::vector<DiskRequest> requests;
  std::vector<std::function<void()>> functions;
  bool stop = false;
  {
    const std::lock_guard lock(inbox_mutex_);
    requests.swap(inbox_);
    functions.swap(posted_);
    stop = stop_requested_;
  }
  for (const auto& function : functions) function();
  for (DiskRequest& request : requests) accept(std::move(request));
  if (stop && !stopping_) begin_stop();
}

void DiskEngine::accept(DiskRequest request) {
  const std::uint64_t number = next_number_++;
  if (auto* read = std::get_if<DiskRead>(&request)) {
    const BlockKey key = read->key;
    enter(key, {std::move(request), number});
  } else if (auto* write = std::get_if<DiskWrite>(&request)) {
    const BlockKey key = write->key;
    outstanding_.insert(number);
    enter(key, {std::move(request), number});
  } else if (auto* erase = std::get_if<EraseRequest>(&request)) {
    const BlockKey key = erase->key;
    outstanding_.insert(number);
    enter(key, {std::move(request), number});
  } else if (auto* touched = std::get_if<TouchRequest>(&request)) {
    touch(*touched);
  } else if (auto* note = std::get_if<DiskNote>(&request)) {
    pending_notes_[std::move(note->name)] = std::move(note->value);
  } else if (auto* flush = std::get_if<FlushRequest>(&request)) {
    flushes_.push_back({flush->ticket, number});
  } else if (auto* space = std::get_if<SpaceDescriptor>(&request)) {
    const BlockKey digest = space->digest();
    const auto known = spaces_.find(digest);
    if (known != spaces_.end() && known->second == *space) return;
    spaces_[digest] = std::move(*space);
    durable_spaces_.erase(digest);
    if (Status kept = persist_space(digest); !kept.ok()) spdlog::warn("disk: {}", kept.message());
  }
}

void DiskEngine::enter(const BlockKey& key, Waiting waiting) {
  KeyGate& gate = gates_[key];
  gate.waiting.push_back(std::move(waiting));
  if (gate.waiting.size() == 1) pump(key);
}

bool DiskEngine::try_begin(KeyGate& gate, Waiting& waiting, const BlockKey& key) {
  if (gate.writing) return false;
  if (auto* read = std::get_if<DiskRead>(&waiting.request)) {
    ++gate.readers;
    ready_reads_.push_back(std::move(*read));
    return true;
  }
  if (gate.readers > 0) return false;
  if (std::holds_alternative<DiskWrite>(waiting.request)) {
    gate.writing = true;
    ready_writes_.push_back(std::move(waiting));
    return true;
  }
  const auto located = located_.find(key);
  if (!located) {
    outstanding_.erase(waiting.number);
    return true;
  }
  located_.erase(key);
  pending_recency_.erase(key);
  erase_now(key, located->extent, waiting.number);
  return true;
}

void DiskEngine::pump(const BlockKey& key) {
  const auto at = gates_.find(key);
  KeyGate& gate = at->second;
  if (gate.readers == 0) {
    for (const Extent& extent : gate.doomed) erase_now(key, extent, std::nullopt);
    gate.doomed.clear();
  }
  while (!gate.waiting.empty() && try_begin(gate, gate.waiting.front(), key))
    gate.waiting.pop_front();
  if (gate.readers == 0 && !gate.writing && gate.waiting.empty()) gates_.erase(at);
}

void DiskEngine::touch(const TouchRequest& request) {
  for (const BlockKey& key : request.keys) note_recency(key, request.recency);
}

void DiskEngine::note_recency(const BlockKey& key, std::uint64_t recency) {
  if (!located_.contains(key) && !gates_.contains(key)) return;
  if (pending_recency_.empty()) recency_due_ns_ = world_.clock->monotonic_ns() + recency_commit_ns;
  std::uint64_t& newest = pending_recency_[key];
  newest = std::max(newest, recency);
}

void DiskEngine::handle(const RingCompletion& completion) {
  const std::uint64_t id = tag_id(completion.tag);
  switch (tag_kind(completion.tag)) {
    case TagKind::read:
      return read_arrived(read_operations_[id].get(), completion.result);
    case TagKind::write:
      return write_arrived(write_operations_[id].get(), completion.result);
    case TagKind::sync:
      return sync_arrived(static_cast<std::uint32_t>(id), completion.result);
    case TagKind::clear:
      return clear_arrived(id, completion.result);
  }
}

void DiskEngine::deliver() {
  used_bytes_ = (used_units() - resting_units_) * extent_unit_bytes;
  direct_ = data_->direct();
  if (completed_.empty()) return;
  std::function<void()> notify;
  {
    const std::lock_guard lock(outbox_mutex_);
    std::move(completed_.begin(), completed_.end(), std::back_inserter(outbox_));
    notify = notify_;
  }
  completed_.clear();
  if (notify) notify();
}

void DiskEngine::begin_stop() {
  stopping_ = true;
  // An index that failed a moment ago is tried once more.
  retry_commit_ns_ = 0;
  // What has not begun needs memory of the caller that may go away now.
  ready_reads_.clear();
  ready_writes_.clear();
  for (auto& [key, gate] : gates_) gate.waiting.clear();
}

bool DiskEngine::idle() const {
  const bool nothing_under_way = idle_reads_.size() == read_operations_.size() &&
                                 idle_writes_.size() == write_operations_.size() && !syncing_ &&
                                 !committing_ && clears_.empty();
  if (!nothing_under_way) return false;
  if (retry_commit_ns_ != 0) return true;  // it was tried; the next start finds the blocks again
  return stored_writes_.empty() && synced_writes_.empty() && uncommitted_.empty() &&
         erasing_.empty() && pending_recency_.empty() && pending_notes_.empty() &&
         to_clear_.empty() && !window_.named();
}

std::optional<std::int64_t> DiskEngine::wait_ns() const {
  if (committing_) return std::nullopt;
  std::optional<std::int64_t> due;
  const auto at = [&due](std::int64_t ns) { due = due ? std::min(*due, ns) : ns; };
  if (!erasing_.empty()) at(erasing_due_ns_);
  if (!uncommitted_.empty()) at(uncommitted_due_ns_);
  if (!pending_recency_.empty()) at(recency_due_ns_);
  if (!pending_notes_.empty()) at(retry_commit_ns_);
  if (!due) return std::nullopt;
  return std::max<std::int64_t>(0, std::max(*due, retry_commit_ns_) - world_.clock->monotonic_ns());
}

}  // namespace terrace::storage
