#include "client/cli/archive_import.h"

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

Status give(client::OperatorClient& daemon, const ArchiveRecord& record, ImportReport& report) {
  const auto taken = daemon.import_block(record.header, record.payload,
                                         client::Deadline::clock::now() + write_timeout);
  if (!taken) {
    if (is_gone(taken.error())) return taken.error();
    ++report.refused;
    note_refusal(report, "block " + record.header.key.hex(), taken.error().message());
    return {};
  }
  switch (taken->outcome) {
    case ImportOutcome::imported:
      ++report.imported;
      break;
    case ImportOutcome::there:
      ++report.there;
      break;
    case ImportOutcome::no_room:
      ++report.no_room;
      note_refusal(report, "block " + record.header.key.hex(), taken->reason);
      break;
    case ImportOutcome::wanted:
    case ImportOutcome::refused:
      ++report.refused;
      note_refusal(report, "block " + record.header.key.hex(), taken->reason);
      break;
  }
  return {};
}

}  // namespace

Result<ImportReport> import_archive(client::OperatorClient* daemon, const std::string& path,
                                    std::ostream* progress) {
  auto reader = open_archive_file(path);
  if (!reader) return error(reader.error());
  ImportReport report;
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
    if (!daemon) continue;
    if (Status status = give(*daemon, record, report); !status.ok()) return error(status);
  }
  show();
  if (progress) *progress << "\n";
  report.damages = reader->damages();
  report.complete = reader->complete();
  return report;
}

}  // namespace terrace::cli
