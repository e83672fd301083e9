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
  DiskOptions each = options;
  each.capacity_bytes = options.capacity_bytes / directories.size();
  std::unique_ptr<DiskSet> set(new DiskSet(each, std::move(clock), make_world));
  Status problem;
  for (const std::string& directory : directories) {
    auto store = set->open_store(directory);
    if (!store) {
      if (store.error().code() != StatusCode::io_error || directories.size() == 1)
        return error(store.error());
      spdlog::warn("disk: {} is left out until it can be opened: {}", directory,
                   store.error().message());
      problem = store.error();
      Absent absent;
      absent.directory = directory;
      absent.not_before_ns = set->clock_->monotonic_ns() + first_reopen_ns;
      set->absent_.push_back(std::move(absent));
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

DiskSet::~DiskSet() {
  if (opening_) opening_->thread.join();
}

Result<std::unique_ptr<DiskStore>> DiskSet::open_store(const std::string& directory) const {
  DiskOptions options = options_;
  options.directory = directory;
  return DiskStore::open(options, make_world_ ? make_world_(directory) : DiskWorld());
}

void DiskSet::look_for_absent() {
  if (absent_.empty()) return;
  const std::int64_t now_ns = clock_->monotonic_ns();
  if (!opening_) {
    const auto due = std::ranges::min_element(absent_, {}, &Absent::not_before_ns);
    if (now_ns < due->not_before_ns) return;
    std::iter_swap(absent_.begin(), due);
    opening_ = std::make_unique<Opening>();
    // Finding what is in it may take seconds.
    opening_->thread = std::thread(
        [this, &opening = *opening_, directory = absent_.front().directory, notify = notify_] {
          opening.outcome.emplace(open_store(directory));
          opening.done = true;
          if (notify) notify();
        });
    return;
  }
  if (!opening_->done) return;
  opening_->thread.join();
  auto store = std::move(*opening_->outcome);
  opening_.reset();
  Absent& absent = absent_.front();
  if (store) {
    take_in(std::move(absent.directory), std::move(*store));
    absent_.pop_front();
    return;
  }
  if (absent.failures == 1)
    spdlog::warn("disk: {} is still away: {}", absent.directory, store.error().message());
  absent.not_before_ns =
      now_ns +
      std::min(first_reopen_ns << std::min<std::uint32_t>(absent.failures, 16), longest_reopen_ns);
  ++absent.failures;
}

void DiskSet::take_in(std::string directory, std::unique_ptr<DiskStore> store) {
  Part part;
  part.directory = std::move(directory);
  part.store = std::move(store);
  part.unknown_bytes = part.store->usage().used_bytes;
  if (notify_) part.store->set_notify(notify_);
  (void)part.store->take_recovered_blocks();
  for (const auto& [digest, space] : spaces_) part.store->add_space(space);
  // It may be the one whose notes the next start believes.
  for (DiskNote& old : part.store->take_recovered_notes())
    if (!notes_.contains(old.name)) part.store->set_note({std::move(old.name), ""});
  for (const auto& [name, value] : notes_) part.store->set_note({name, value});
  spdlog::info(
      "disk: {} can be opened and takes blocks again; {} bytes of blocks in it are of use "
      "from the next start on",
      part.directory, part.unknown_bytes);
  parts_.push_back(std::move(part));
}

void DiskSet::adopt(std::size_t part) {
  std::unordered_map<BlockKey, std::uint64_t> twice;
  for (RecoveredBlock& block : parts_[part].store->take_recovered_blocks()) {
    // Written again while this directory was away, or left here by a write that failed: one record
    // is enough.
    if (!part_of_.contains(block.key)) {
      part_of_.put(block.key, part);
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
    if (const auto at = part_of_.find(kept.key))
      parts_[*at].store->touch({&kept.key, 1}, kept.recency);
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
  std::vector<DiskNote> notes = parts_.front().store->take_recovered_notes();
  for (const DiskNote& note : notes) notes_.insert_or_assign(note.name, note.value);
  return notes;
}

void DiskSet::add_space(const SpaceDescriptor& space) {
  spaces_.insert_or_assign(space.digest(), space);
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
  // What came since the write began has no part in it.
  for (std::size_t i = 0; i < writing.tried.size(); ++i) {
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
  look_for_absent();
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
  if (const auto at = part_of_.find(writing.request.key)) {
    writing.tried.assign(parts_.size(), true);
    writing.tried[*at] = false;
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
  if (!at)
    return complete(
        {request.ticket, Status(StatusCode::not_found, "the block is not on disk"), 0, 0});
  Part& part = parts_[*at];
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
  if (!at) return;
  parts_[*at].store->erase(key);
  part_of_.erase(key);
}

void DiskSet::touch(std::span<const BlockKey> keys, std::uint64_t recency) {
  std::vector<std::vector<BlockKey>> by_part(parts_.size());
  for (const BlockKey& key : keys) {
    if (const auto writing = writing_key_.find(key); writing != writing_key_.end()) {
      Writing& one = writing_.at(writing->second);
      one.request.recency = std::max(one.request.recency, recency);  // if it is tried again
      by_part[one.part].push_back(key);
    } else if (const auto at = part_of_.find(key)) {
      by_part[*at].push_back(key);
    }
  }
  for (std::size_t i = 0; i < parts_.size(); ++i)
    if (!by_part[i].empty()) parts_[i].store->touch(by_part[i], recency);
}

void DiskSet::set_note(DiskNote note) {
  if (note.value.empty())
    notes_.erase(note.name);
  else
    notes_.insert_or_assign(note.name, note.value);
  for (Part& part : parts_) part.store->set_note(note);
}

void DiskSet::flush(Ticket ticket) {
  flushing_[ticket].left = parts_.size();
  for (Part& part : parts_) part.store->flush(ticket);
}

void DiskSet::take_completions(std::vector<DiskCompletion>& out) {
  look_for_absent();
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
    if ((dropped || code == StatusCode::not_found) && known == part) part_of_.erase(at->second.key);
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
    part_of_.put(writing.request.key, part);
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
    // As if the directory were smaller by what nobody knows of.
    sum.capacity_bytes += usage.capacity_bytes - std::min(usage.capacity_bytes, part.unknown_bytes);
    sum.used_bytes += usage.used_bytes - std::min(usage.used_bytes, part.unknown_bytes);
    sum.quarantined_records += usage.quarantined_records;
  }
  return sum;
}

}  // namespace terrace::storage
