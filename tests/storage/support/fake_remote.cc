#include "tests/storage/support/fake_remote.h"

#include <algorithm>
#include <stdexcept>

#include "core/checksum.h"

namespace terrace::storage {

Ticket FakeRemote::Request::ticket() const {
  switch (kind) {
    case Kind::lookup:
      return lookup.ticket;
    case Kind::read:
      return read.ticket;
    case Kind::write:
      return write.ticket;
    case Kind::erase_space:
      break;
  }
  return erase_space.ticket;
}

BlockKey FakeRemote::Request::space() const {
  switch (kind) {
    case Kind::lookup:
      return lookup.space;
    case Kind::read:
      return read.space;
    case Kind::write:
      return write.space;
    case Kind::erase_space:
      break;
  }
  return erase_space.space;
}

std::int64_t FakeRemote::Request::deadline_ns() const {
  return kind == Kind::lookup ? lookup.deadline_ns
         : kind == Kind::read ? read.deadline_ns
                              : INT64_MAX;
}

void FakeRemote::add(Request request) {
  if (std::ranges::find(spaces_, request.space()) == spaces_.end())
    throw std::logic_error("a request in a space that was not made known");
  requests_.push_back(std::move(request));
}

void FakeRemote::lookup(RemoteLookup request) {
  ++lookups_;
  add({.kind = Kind::lookup, .lookup = std::move(request)});
}

void FakeRemote::read(RemoteRead request) {
  ++reads_;
  add({.kind = Kind::read, .read = std::move(request)});
}

void FakeRemote::write(RemoteWrite request) {
  ++writes_;
  add({.kind = Kind::write, .write = std::move(request)});
}

void FakeRemote::erase(const BlockKey& space, std::span<const BlockKey> keys) {
  if (!available()) return;
  for (const BlockKey& key : keys) {
    const auto found = contents_.values.find(key);
    if (found == contents_.values.end() || found->second.space != space) continue;
    contents_.values.erase(found);
    ++erased_;
  }
}

void FakeRemote::erase_space(RemoteEraseSpace request) {
  add({.kind = Kind::erase_space, .erase_space = request});
}

void FakeRemote::take_completions(std::vector<RemoteCompletion>& out) {
  out.insert(out.end(), completions_.begin(), completions_.end());
  completions_.clear();
}

RemoteUsage FakeRemote::usage() const {
  RemoteUsage usage;
  usage.breaker = breaker_;
  return usage;
}

void FakeRemote::complete(std::size_t which, const Status& failure) {
  Request request = std::move(requests_.at(which));
  requests_.erase(requests_.begin() + static_cast<std::ptrdiff_t>(which));
  RemoteCompletion completion;
  completion.ticket = request.ticket();
  completion.status = failure.ok() ? carry_out(request, completion) : failure;
  // A failed read may have left anything.
  if (request.kind == Kind::read && !completion.status.ok())
    std::ranges::fill(request.read.destination, std::byte{0xdd});
  if (request.kind == Kind::read && completion.status.code() == StatusCode::corruption)
    contents_.values.erase(request.read.key);
  completions_.push_back(std::move(completion));
  if (notify_) notify_();
}

void FakeRemote::expire(std::int64_t now_ns) {
  for (std::size_t i = 0; i < requests_.size();) {
    if (requests_[i].deadline_ns() <= now_ns)
      complete(i, Status(StatusCode::unavailable, "too slow"));
    else
      ++i;
  }
}

Status FakeRemote::carry_out(Request& request, RemoteCompletion& completion) {
  auto& values = contents_.values;
  if (request.kind == Kind::lookup) {
    for (const BlockKey& key : request.lookup.keys) {
      if (!values.contains(key)) break;
      ++completion.present;
    }
  } else if (request.kind == Kind::erase_space) {
    std::erase_if(values, [&](const auto& entry) { return entry.second.space == request.space(); });
  } else if (request.kind == Kind::write) {
    const RemoteWrite& write = request.write;
    FakeRemoteValue value{write.space,
                          write.parent,
                          write.tokens,
                          {write.payload.begin(), write.payload.end()},
                          write.payload_checksum,
                          write.created_unix_ms,
                          write.max_ttl_ms};
    if (payload_checksum(value.payload) != write.payload_checksum)
      return {StatusCode::corruption, "the payload is not what was sealed"};
    completion.stored_bytes = value.payload.size();
    values.insert_or_assign(write.key, std::move(value));
  } else {
    const RemoteRead& read = request.read;
    const auto found = values.find(read.key);
    if (found == values.end()) return {StatusCode::not_found, "no such value"};
    const FakeRemoteValue& value = found->second;
    if (value.space != read.space || value.parent != read.parent || value.tokens != read.tokens ||
        value.payload.size() != read.destination.size() ||
        payload_checksum(value.payload) != value.checksum)
      return {StatusCode::corruption, "the value does not verify"};
    std::ranges::copy(value.payload, read.destination.begin());
    completion.payload_checksum = value.checksum;
    completion.created_unix_ms = value.created_unix_ms;
    completion.stored_bytes = value.payload.size();
  }
  return {};
}

}  // namespace terrace::storage
