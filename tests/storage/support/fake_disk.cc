#include "tests/storage/support/fake_disk.h"

#include <algorithm>

#include "core/checksum.h"

namespace terrace::storage {

std::uint64_t FakeDiskContents::used_bytes() const {
  std::uint64_t used = 0;
  for (const auto& [key, record] : records) used += disk_bytes(record);
  return used;
}

void FakeDiskContents::commit() {
  for (auto& [key, record] : records) record.durable_recency = record.recency;
  durable_notes = notes;
  erased.clear();
}

void FakeDiskContents::crash(const std::function<bool()>& comes_back) {
  for (auto& [key, record] : records) record.recency = record.durable_recency;
  notes = durable_notes;
  for (auto& [key, record] : erased) {
    if (!comes_back() || used_bytes() + disk_bytes(record) > capacity_bytes) continue;
    record.recency = record.durable_recency;
    records.try_emplace(key, std::move(record));
  }
  erased.clear();
}

std::vector<RecoveredBlock> FakeDisk::take_recovered_blocks() {
  std::vector<RecoveredBlock> blocks;
  for (const auto& [key, record] : contents_.records)
    blocks.push_back({record.space, key, record.parent, record.tokens,
                      FakeDiskContents::disk_bytes(record), record.recency,
                      record.created_unix_ms});
  return blocks;
}

std::vector<SpaceDescriptor> FakeDisk::take_recovered_spaces() { return contents_.spaces; }

void FakeDisk::add_space(const SpaceDescriptor& space) { contents_.spaces.push_back(space); }

void FakeDisk::write(DiskWrite request) {
  ++writes_;
  requests_.push_back({.kind = Kind::write, .write = std::move(request)});
}

void FakeDisk::read(DiskRead request) {
  ++reads_;
  requests_.push_back({.kind = Kind::read, .read = std::move(request)});
}

void FakeDisk::erase(const BlockKey& key) {
  ++erases_;
  auto node = contents_.records.extract(key);
  if (!node.empty()) contents_.erased.emplace_back(key, std::move(node.mapped()));
}

void FakeDisk::touch(std::span<const BlockKey> keys, std::uint64_t recency) {
  ++touches_;
  for (Request& request : requests_)
    if (request.kind == Kind::write && std::ranges::find(keys, request.write.key) != keys.end())
      request.write.recency = std::max(request.write.recency, recency);
  for (const BlockKey& key : keys)
    if (const auto found = contents_.records.find(key); found != contents_.records.end())
      found->second.recency = recency;
}

std::vector<DiskNote> FakeDisk::take_recovered_notes() {
  std::vector<DiskNote> notes;
  for (const auto& [name, value] : contents_.notes) notes.push_back({name, value});
  return notes;
}

void FakeDisk::set_note(DiskNote note) {
  if (note.value.empty())
    contents_.notes.erase(note.name);
  else
    contents_.notes[note.name] = std::move(note.value);
}

void FakeDisk::flush(Ticket ticket) { requests_.push_back({.kind = Kind::flush, .flush = ticket}); }

void FakeDisk::take_completions(std::vector<DiskCompletion>& out) {
  out.insert(out.end(), completions_.begin(), completions_.end());
  completions_.clear();
}

DiskUsage FakeDisk::usage() const {
  return {.capacity_bytes = contents_.capacity_bytes, .used_bytes = contents_.used_bytes()};
}

bool FakeDisk::may_complete(std::size_t which) const {
  const Request& request = requests_.at(which);
  if (request.kind == Kind::flush) return which == 0;
  for (std::size_t i = 0; i < which; ++i)
    if (requests_[i].kind != Kind::flush && requests_[i].key() == request.key()) return false;
  return true;
}

void FakeDisk::complete(std::size_t which, const Status& failure) {
  Request request = std::move(requests_.at(which));
  requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(which));
  DiskCompletion completion;
  completion.ticket = request.kind == Kind::write  ? request.write.ticket
                      : request.kind == Kind::read ? request.read.ticket
                                                   : request.flush;
  completion.status = failure.ok() ? carry_out(request, completion) : failure;
  // A failed read may have left anything.
  if (request.kind == Kind::read && !completion.status.ok())
    std::ranges::fill(request.read.destination, std::byte{0xee});
  if (request.kind == Kind::read && completion.status.code() == StatusCode::corruption &&
      !request.read.leave_corrupt)
    contents_.records.erase(request.read.key);
  completions_.push_back(std::move(completion));
  if (notify_) notify_();
}

Status FakeDisk::carry_out(Request& request, DiskCompletion& completion) {
  if (request.kind == Kind::write) {
    DiskWrite& write = request.write;
    FakeRecord record{write.space,
                      write.parent,
                      write.tokens,
                      {write.payload.begin(), write.payload.end()},
                      write.payload_checksum,
                      write.recency,
                      write.recency,
                      write.created_unix_ms};
    if (payload_checksum(record.payload) != write.payload_checksum)
      return {StatusCode::corruption, "the payload is not what was sealed"};
    completion.disk_bytes = FakeDiskContents::disk_bytes(record);
    if (contents_.used_bytes() + completion.disk_bytes > contents_.capacity_bytes)
      return {StatusCode::no_space, "the disk is full"};
    std::erase_if(contents_.erased, [&](const auto& one) { return one.first == write.key; });
    contents_.records.insert_or_assign(write.key, std::move(record));
  } else if (request.kind == Kind::read) {
    const DiskRead& read = request.read;
    const auto found = contents_.records.find(read.key);
    if (found == contents_.records.end()) return {StatusCode::not_found, "no such block"};
    const FakeRecord& record = found->second;
    if (record.space != read.space || record.parent != read.parent ||
        record.tokens != read.tokens || record.payload.size() != read.destination.size() ||
        payload_checksum(record.payload) != record.checksum)
      return {StatusCode::corruption, "the record does not verify"};
    std::ranges::copy(record.payload, read.destination.begin());
    completion.payload_checksum = record.checksum;
  } else {
    contents_.commit();
  }
  return {};
}

}  // namespace terrace::storage
