#include "client/cli/archive_import.h"

#include <deque>
#include <optional>
#include <ostream>

#include "client/cli/archive_writer.h"
#include "core/bytes.h"

namespace terrace::cli {
namespace {

// A large block to a slow disk is durable within this.
constexpr std::chrono::seconds write_timeout{60};
constexpr std::uint64_t records_between_progress = 16;

bool is_gone(const Status& status) {
  return status.code() == StatusCode::unavailable || status.code() == StatusCode::deadline_exceeded;
}

void note_refusal(ImportReport& report, const std::string& what, const std::string& reason) {
  if (report.refusal.empty()) report.refusal = what + ": " + reason;
}

// Blocks on their way into a daemon, which writes several at once: one that waited for each would
// have the disk flush for each.
class Giving {
 public:
  Giving(client::OperatorClient& daemon, ImportReport& report) : daemon_(daemon), report_(report) {}

  // Fails only if the daemon is gone.
  Status give(const ArchiveRecord& record) {
    if (under_way_.size() == client::max_imports_at_once)
      if (Status status = finish_one(); !status.ok()) return status;
    const Status started = daemon_.start_import(record.header, record.payload, deadline());
    if (started.ok()) {
      under_way_.push_back(record.header.key);
      return {};
    }
    return note(record.header.key, error(started));
  }
  Status finish() {
    while (!under_way_.empty())
      if (Status status = finish_one(); !status.ok()) return status;
    return {};
  }

 private:
  static client::Deadline deadline() { return client::Deadline::clock::now() + write_timeout; }

  Status finish_one() {
    const BlockKey key = under_way_.front();
    under_way_.pop_front();
    return note(key, daemon_.finish_import(deadline()));
  }

  Status note(const BlockKey& key, const Result<client::ImportAnswer>& taken) {
    const std::string what = "block " + key.hex();
    if (!taken) {
      if (is_gone(taken.error())) return taken.error();
      ++report_.refused;
      note_refusal(report_, what, taken.error().message());
      return {};
    }
    switch (taken->outcome) {
      case ImportOutcome::imported:
        ++report_.imported;
        break;
      case ImportOutcome::there:
        ++report_.there;
        break;
      case ImportOutcome::no_room:
        ++report_.no_room;
        note_refusal(report_, what, taken->reason);
        break;
      case ImportOutcome::wanted:
      case ImportOutcome::refused:
        ++report_.refused;
        note_refusal(report_, what, taken->reason);
        break;
    }
    return {};
  }

  client::OperatorClient& daemon_;
  ImportReport& report_;
  std::deque<BlockKey> under_way_;
};

}  // namespace

Result<ImportReport> import_archive(client::OperatorClient* daemon, const std::string& path,
                                    std::ostream* progress) {
  auto reader = open_archive_file(path);
  if (!reader) return error(reader.error());
  ImportReport report;
  std::optional<Giving> giving;
  if (daemon) giving.emplace(*daemon, report);
  const auto show = [&] {
    if (progress)
      *progress << "\r" << report.blocks << " blocks, " << format_bytes(report.bytes) << "  "
                << std::flush;
  };
  for (;;) {
    const auto part = reader->next();
    if (!part) return error(part.error());
    if (!*part) break;
    if (const auto* space = std::get_if<SpaceDescriptor>(&**part)) {
      ++report.spaces;
      if (!daemon) continue;
      const Status opened =
          daemon->import_space(*space, client::Deadline::clock::now() + write_timeout);
      if (!opened.ok() && is_gone(opened)) return error(opened);
      if (!opened.ok()) note_refusal(report, "space " + space->digest().hex(), opened.message());
      continue;
    }
    const auto& record = std::get<ArchiveRecord>(**part);
    ++report.blocks;
    report.bytes += record.payload.size();
    if (report.blocks % records_between_progress == 0) show();
    if (!giving) continue;
    if (Status status = giving->give(record); !status.ok()) return error(status);
  }
  if (giving)
    if (Status status = giving->finish(); !status.ok()) return error(status);
  show();
  if (progress) *progress << "\n";
  report.damages = reader->damages();
  report.complete = reader->complete();
  return report;
}

}  // namespace terrace::cli
