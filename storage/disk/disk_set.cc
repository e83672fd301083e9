#include "storage/disk/disk_set.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <set>
#include <utility>

namespace terrace::storage {

Result<std::unique_ptr<DiskSet>> DiskSet::open(const DiskOptions& options,
                                               const std::vector<std::string>& directories,
                                               std::shared_ptr<const Clock> clock,
                                               const MakeWorld& make_world) {
  if (directories.empty() || directories.size() > max_data_directories)
    return error(StatusCode::invalid_argument,
                 "expected 1 to " + std::to_string(max_data_directories) + " data directories");
  if (std::set<std::string>(directories.begin(), directories.end()).size() != directories.size())
    return error(StatusCode::invalid_argument, "a data directory is named twice");
  if (!clock) clock = std::make_shared<SystemClock>();
  std::unique_ptr<DiskSet> set(new DiskSet(std::move(clock)));
  Status problem;
  for (const std::string& directory : directories) {
    DiskOptions own = options;
    own.directory = directory;
    own.capacity_bytes = options.capacity_bytes / directories.size();
    auto store = DiskStore::open(own, make_world ? make_world(directory) : DiskWorld());
    if (!store) {
      if (store.error().code() != StatusCode::io_error || directories.size() == 1)
        return error(store.error());
      spdlog::warn("disk: {} is left out until the next start: {}", directory,
                   store.error().message());
      problem = store.error();
      continue;
    }
    Part part;
    part.directory = directory;
    part.store = std::move(*store);
    set->parts_.push_back(std::move(part));
  }
  if (set->parts_.empty()) return error(problem);
  for (std::size_t part = 0; part < set->parts_.size(); ++part) set->adopt(part);
  return set;
}

void DiskSet::adopt(std::size_t part) {
  std::unordered_map<BlockKey, std::uint64_t> twice;
  for (RecoveredBlock& block : parts_[part].store->take_recovered_blocks()) {
    // Written again while this directory was away, or left here by a write that failed: one record
    // is enough.
    if (part_of_.emplace(block.key, static_cast<std::uint32_t>(part)).second) {
      recovered_blocks_.push_back(std::move(block));
    } else {
      parts_[part].store->erase(block.key);
      twice[block.key] = block.recency;
    }
  }
  if (twice.empty()) return;
  // But the other may know of later uses.
  for (RecoveredBlock& kept : recovered_blocks_) {
    const auto other = twice.find(kept.key);
    if (other == twice.end() || other->second <= kept.recency) continue;
    kept.recency = other->second;
    parts_[part_of_.at(kept.key)].store->touch({&kept.key, 1}, kept.recency);
  }
}

std::vector<RecoveredBlock> DiskSet::take_recovered_blocks() {
  return std::exchange(recovered_blocks_, {});
}

std::vector<SpaceDescriptor> DiskSet::take_recovered_spaces() {
  std::vector<SpaceDescriptor> spaces;
  std::set<BlockKey> known;
  for (Part& part : parts_)
    for (SpaceDescriptor& space : part.store->take_recovered_spaces())
      if (known.insert(space.digest()).second) spaces.push_back(std::move(space));
  // Each directory may get blocks of every space from now on.
  for (const SpaceDescriptor& space : spaces) add_space(space);
  return spaces;
}

std::vector<DiskNote> DiskSet::take_recovered_notes() {
  return parts_.front().store->take_recovered_notes();
}

void DiskSet::add_space(const SpaceDescriptor& space) {
  for (Part& part : parts_) part.store->add_space(space);
}

bool DiskSet::rests(const Part& part) const {
  return part.failures > 0 && clock_->monotonic_ns() < part.rests_until_ns;
}

void DiskSet::note_outcome(Part& part, const Status& status) {
  if (status.code() != StatusCode::io_error) {
    if (part.failures > 0 && status.ok()) spdlog::info("disk: {} works again", part.directory);
    if (status.ok()) part.failures = 0;
    return;
  }
  if (part.failures == 0) spdlog::warn("disk: {} fails: {}", part.directory, status.message());
  // Requests that were under way at the same time count once.
  if (rests(part)) return;
  const std::int64_t rest_ns =
      std::min(first_directory_rest_ns << std::min<std::uint32_t>(part.failures, 16),
               longest_directory_rest_ns);
  ++part.failures;
  part.rests_until_ns = clock_->monotonic_ns() + rest_ns;
}

std::optional<std::size_t> DiskSet::choose(const Writing& writing) const {
  std::optional<std::size_t> best;
  std::pair<bool, double> best_score;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (writing.tried[i]) continue;
    const DiskUsage usage = parts_[i].store->usage();
    const double taken = static_cast<double>(usage.used_bytes + parts_[i].writing_bytes);
    const double capacity = static_cast<double>(std::max<std::uint64_t>(1, usage.capacity_bytes));
    // One that rests is tried last, rather than failing what nobody else can take.
    const std::pair<bool, double> score(!rests(parts_[i]), 1 - taken / capacity);
    if (best && score <= best_score) continue;
    best = i;
    best_score = score;
  }
  return best;
}

void DiskSet::write(DiskWrite request) {
  if (const auto at = writing_key_.find(request.key); at != writing_key_.end()) {
    writing_.at(at->second).later.emplace_back(std::move(request));
    return;
  }
  const Ticket ticket = request.ticket;
  writing_key_[request.key] = ticket;
  Writing& writing = writing_[ticket];
  writing.request = std::move(request);
  writing.tried.assign(parts_.size(), false);
  // Where it is already it stays.
  if (const auto at = part_of_.find(writing.request.key); at != part_of_.end()) {
    writing.tried.assign(parts_.size(), true);
    writing.tried[at->second] = false;
  }
  try_write(writing);
}

void DiskSet::try_write(Writing& writing) {
  writing.part = *choose(writing);
  writing.tried[writing.part] = true;
  parts_[writing.part].writing_bytes += writing.request.payload.size();
  parts_[writing.part].store->write(writing.request);
}

void DiskSet::read(DiskRead request) {
  if (const auto at = writing_key_.find(request.key); at != writing_key_.end()) {
    writing_.at(at->second).later.emplace_back(std::move(request));
    return;
  }
  const auto at = part_of_.find(request.key);
  if (at == part_of_.end())
    return complete(
        {request.ticket, Status(StatusCode::not_found, "the block is not on disk"), 0, 0});
  Part& part = parts_[at->second];
  if (rests(part))
    return complete(
        {request.ticket, Status(StatusCode::io_error, part.directory + " fails"), 0, 0});
  reading_[request.ticket] = {request.key, request.leave_corrupt};
  part.store->read(std::move(request));
}

void DiskSet::erase(const BlockKey& key) {
  if (const auto at = writing_key_.find(key); at != writing_key_.end()) {
    writing_.at(at->second).later.emplace_back(key);
    return;
  }
  const auto at = part_of_.find(key);
  if (at == part_of_.end()) return;
  parts_[at->second].store->erase(key);
  part_of_.erase(at);
}

void DiskSet::touch(std::span<const BlockKey> keys, std::uint64_t recency) {
  std::vector<std::vector<BlockKey>> by_part(parts_.size());
  for (const BlockKey& key : keys) {
    if (const auto writing = writing_key_.find(key); writing != writing_key_.end()) {
      Writing& one = writing_.at(writing->second);
      one.request.recency = std::max(one.request.recency, recency);  // if it is tried again
      by_part[one.part].push_back(key);
    } else if (const auto at = part_of_.find(key); at != part_of_.end()) {
      by_part[at->second].push_back(key);
    }
  }
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (!by_part[i].empty()) parts_[i].store->touch(by_part[i], recency);
}

void DiskSet::set_note(DiskNote note) {
  for (Part& part : parts_) part.store->set_note(note);
}

void DiskSet::flush(Ticket ticket) {
  flushing_[ticket].left = parts_.size();
  for (Part& part : parts_) part.store->flush(ticket);
}

void DiskSet::take_completions(std::vector<DiskCompletion>& out) {
  std::vector<DiskCompletion> arrived;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    arrived.clear();
    parts_[i].store->take_completions(arrived);
    for (DiskCompletion& one : arrived) handle(i, std::move(one));
  }
  std::move(completed_.begin(), completed_.end(), std::back_inserter(out));
  completed_.clear();
}

void DiskSet::handle(std::size_t part, DiskCompletion completion) {
  const Ticket ticket = completion.ticket;
  if (const auto at = flushing_.find(ticket); at != flushing_.end()) {
    note_outcome(parts_[part], completion.status);
    if (at->second.status.ok()) at->second.status = completion.status;
    if (--at->second.left > 0) return;
    completion.status = at->second.status;
    flushing_.erase(at);
    completed_.push_back(std::move(completion));
    return;
  }
  if (const auto at = reading_.find(ticket); at != reading_.end()) {
    const StatusCode code = completion.status.code();
    note_outcome(parts_[part], completion.status);
    const auto known = part_of_.find(at->second.key);
    const bool dropped = code == StatusCode::corruption && !at->second.leave_corrupt;
    if ((dropped || code == StatusCode::not_found) && known != part_of_.end() &&
        known->second == part)
      part_of_.erase(known);
    reading_.erase(at);
    completed_.push_back(std::move(completion));
    return;
  }
  const auto at = writing_.find(ticket);
  if (at == writing_.end()) return;
  Writing& writing = at->second;
  parts_[part].writing_bytes -= writing.request.payload.size();
  note_outcome(parts_[part], completion.status);
  const StatusCode code = completion.status.code();
  if (code == StatusCode::io_error || code == StatusCode::no_space) {
    if (writing.problem.ok()) writing.problem = completion.status;
    // A disk without room is something that the cache can do something about.
    if (code == StatusCode::no_space) writing.problem = completion.status;
    if (choose(writing)) return try_write(writing);
    completion.status = writing.problem;
  } else if (code == StatusCode::ok) {
    part_of_[writing.request.key] = static_cast<std::uint32_t>(part);
  }
  finish_write(ticket, std::move(completion));
}

void DiskSet::finish_write(Ticket ticket, DiskCompletion completion) {
  auto node = writing_.extract(ticket);
  writing_key_.erase(node.mapped().request.key);
  completed_.push_back(std::move(completion));
  // The next write of the key takes over what waits behind it.
  for (Later& later : node.mapped().later) {
    if (auto* request = std::get_if<DiskWrite>(&later))
      write(std::move(*request));
    else if (auto* wanted = std::get_if<DiskRead>(&later))
      read(std::move(*wanted));
    else
      erase(std::get<BlockKey>(later));
  }
}

void DiskSet::complete(DiskCompletion completion) {
  completed_.push_back(std::move(completion));
  if (notify_) notify_();
}

void DiskSet::set_notify(std::function<void()> notify) {
  notify_ = notify;
  for (Part& part : parts_) part.store->set_notify(notify);
}

DiskUsage DiskSet::usage() const {
  DiskUsage sum;
  for (const Part& part : parts_) {
    const DiskUsage usage = part.store->usage();
    sum.capacity_bytes += usage.capacity_bytes;
    sum.used_bytes += usage.used_bytes;
    sum.quarantined_records += usage.quarantined_records;
  }
  return sum;
}

}  // namespace terrace::storage
