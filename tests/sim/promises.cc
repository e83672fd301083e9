#include "tests/sim/promises.h"

#include <algorithm>
#include <utility>

namespace terrace::sim {

using storage::DiskCompletion;
using storage::DiskNote;
using storage::DiskRead;
using storage::DiskTier;
using storage::DiskWrite;
using storage::RecoveredBlock;
using storage::Ticket;

class Promises::Watched final : public DiskTier {
 public:
  Watched(Promises& promises, std::unique_ptr<DiskTier> disk)
      : promises_(promises), disk_(std::move(disk)) {}

  std::vector<RecoveredBlock> take_recovered_blocks() override {
    auto blocks = disk_->take_recovered_blocks();
    promises_.check_recovered(blocks, disk_->usage().used_bytes);
    return blocks;
  }
  std::vector<SpaceDescriptor> take_recovered_spaces() override {
    return disk_->take_recovered_spaces();
  }
  void add_space(const SpaceDescriptor& space) override { disk_->add_space(space); }
  void write(DiskWrite request) override {
    begin(request.ticket, Kind::write, request.key);
    promises_.asked_for_.insert(request.key);
    // What is found again before the index has it is as recent as its record, about.
    promises_.being_written_[request.key] = {0, {{promises_.served_ns_(), request.recency, true}}};
    disk_->write(std::move(request));
  }
  void read(DiskRead request) override {
    begin(request.ticket, Kind::read, request.key);
    disk_->read(std::move(request));
  }
  void erase(const BlockKey& key) override {
    promises_.promised_.erase(key);
    disk_->erase(key);
  }
  void touch(std::span<const BlockKey> keys, std::uint64_t recency) override {
    for (const BlockKey& key : keys) promises_.tell(key, {promises_.served_ns_(), recency, true});
    disk_->touch(keys, recency);
  }
  std::vector<DiskNote> take_recovered_notes() override {
    auto notes = disk_->take_recovered_notes();
    promises_.check_notes(notes);
    return notes;
  }
  void set_note(DiskNote note) override {
    auto& values = promises_.notes_[note.name];
    if (values.empty()) values.emplace_back();
    values.push_back(note.value);
    disk_->set_note(std::move(note));
  }
  void flush(Ticket ticket) override {
    begin(ticket, Kind::flush, {}, promises_.served_ns_());
    disk_->flush(ticket);
  }
  void take_completions(std::vector<DiskCompletion>& out) override {
    const std::size_t first = out.size();
    disk_->take_completions(out);
    for (std::size_t i = first; i < out.size(); ++i) note(out[i]);
  }
  void set_notify(std::function<void()> notify) override { disk_->set_notify(std::move(notify)); }
  storage::DiskUsage usage() const override { return disk_->usage(); }

 private:
  enum class Kind : std::uint8_t { write, read, flush };
  struct Request {
    Kind kind = Kind::flush;
    BlockKey key;
    std::int64_t at_served_ns = 0;
  };

  void begin(Ticket ticket, Kind kind, const BlockKey& key, std::int64_t at_served_ns = 0) {
    if (!requests_.emplace(ticket, Request{kind, key, at_served_ns}).second)
      promises_.complain_("a ticket was used twice at the same time");
  }

  void note(const DiskCompletion& completion) {
    const auto node = requests_.extract(completion.ticket);
    if (node.empty()) return promises_.complain_("the disk completed what nobody asked for");
    const Request& request = node.mapped();
    const StatusCode code = completion.status.code();
    switch (request.kind) {
      case Kind::write: {
        promises_.no_space_answers_ += code == StatusCode::no_space;
        auto written = promises_.being_written_.extract(request.key);
        if (code != StatusCode::ok || written.empty()) break;
        promises_.broken_.erase(request.key);
        // Of what was told while it was written, the second counts from now on.
        for (Told& told : written.mapped().told) told.at_served_ns = promises_.served_ns_();
        promises_.promised_[request.key] = std::move(written.mapped());
        break;
      }
      case Kind::read:
        if (code != StatusCode::not_found && code != StatusCode::corruption) break;
        // Whatever is promised neither rots nor goes.
        if (promises_.durable(request.key))
          promises_.complain_("what was durable is lost: " + completion.status.to_string());
        promises_.promised_.erase(request.key);
        break;
      case Kind::flush:
        if (code != StatusCode::ok) break;
        for (auto& [key, promise] : promises_.promised_)
          for (const Told& told : promise.told)
            if (told.to_disk && told.at_served_ns < request.at_served_ns)
              promise.recency = std::max(promise.recency, told.recency);
        break;
    }
  }

  Promises& promises_;
  std::unique_ptr<DiskTier> disk_;
  std::unordered_map<Ticket, Request> requests_;
};

std::unique_ptr<DiskTier> Promises::watch(std::unique_ptr<DiskTier> disk) {
  return std::make_unique<Watched>(*this, std::move(disk));
}

void Promises::settle(Promise& promise, std::int64_t until_served_ns) {
  std::erase_if(promise.told, [&](const Told& told) {
    if (told.at_served_ns > until_served_ns) return false;
    promise.recency = std::max(promise.recency, told.recency);
    return true;
  });
}

void Promises::tell(const BlockKey& key, const Told& told) {
  auto found = promised_.find(key);
  if (found == promised_.end()) {
    found = being_written_.find(key);
    if (found == being_written_.end()) return;
  }
  settle(found->second, served_ns_() - max_lost_recency_ns);
  found->second.told.push_back(told);
}

void Promises::used(const BlockKey& key, std::int64_t at_served_ns, std::uint64_t recency) {
  tell(key, {at_served_ns, recency, false});
}

void Promises::index_lost() {
  rebuilt_ = true;
  for (auto& [key, promise] : promised_) promise.recency = 0;
  for (auto& [name, values] : notes_) values = {""};
}

void Promises::life_ended(bool crash) {
  no_space_answers_ = 0;
  being_written_.clear();
  if (!crash)
    for (auto& [name, values] : notes_) values.erase(values.begin(), values.end() - 1);
  for (auto& [key, promise] : promised_) {
    settle(promise, served_ns_() - max_lost_recency_ns);
    for (const Told& told : promise.told)
      if (!crash && told.to_disk) promise.recency = std::max(promise.recency, told.recency);
    promise.told.clear();
  }
}

void Promises::check_recovered(const std::vector<RecoveredBlock>& blocks,
                               std::uint64_t used_bytes) {
  std::unordered_map<BlockKey, const RecoveredBlock*> found;
  std::uint64_t bytes = 0;
  for (const RecoveredBlock& block : blocks) bytes += block.disk_bytes;
  // More is in use only of what lies in two directories.
  if (bytes > used_bytes) complain_("what was recovered takes more than is in use");
  if (bytes < used_bytes && one_directory_) complain_("room leaked before a start");
  for (const RecoveredBlock& block : blocks) {
    if (!found.emplace(block.key, &block).second) complain_("a block was recovered twice");
    if (!asked_for_.contains(block.key)) complain_("a block was recovered that nobody wrote");
  }
  for (const auto& [key, promise] : promised_) {
    const auto at = found.find(key);
    if (at == found.end() && rebuilt_ && !rebuild_finds_all_) continue;
    if (at == found.end()) {
      complain_("a block that was durable is not there after the end of the process");
    } else if (recency_counts_ && at->second->recency < promise.recency) {
      complain_("the recency of a block is too old after the end of the process: " +
                std::to_string(at->second->recency) + " instead of " +
                std::to_string(promise.recency));
    }
  }
  // What was found has been durable all along.
  const auto before = std::exchange(promised_, {});
  for (const RecoveredBlock& block : blocks) {
    // A rebuild finds also what was never acknowledged, and does not look at payloads. Of two
    // directories it may take the wrong record.
    if (rebuilt_ && (!before.contains(block.key) || !one_directory_)) broken_.insert(block.key);
    if (broken_.contains(block.key)) continue;
    // Of a block that was found in two directories the second does not yet know what the first did.
    if (one_directory_)
      promised_[block.key] = {block.recency, {}};
    else
      promised_[block.key] = {0, {{served_ns_(), block.recency, true}}};
  }
  rebuilt_ = false;
}

void Promises::check_notes(const std::vector<DiskNote>& notes) {
  std::map<std::string, std::string> found;
  for (const DiskNote& note : notes) found[note.name] = note.value;
  for (auto& [name, values] : notes_) {
    const std::string value = found[name];
    if (std::ranges::find(values, value) == values.end())
      complain_("the note " + name + " is none that was kept");
    values = {value};
  }
  for (const auto& [name, value] : found)
    if (!notes_.contains(name)) complain_("a note was recovered that nobody kept");
}

}  // namespace terrace::sim
