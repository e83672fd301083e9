// Verbs about archives.
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "client/cli/archive_export.h"
#include "client/cli/archive_import.h"
#include "client/cli/archive_writer.h"
#include "client/cli/confirm.h"
#include "client/cli/program.h"
#include "client/cli/resolve.h"
#include "client/cli/text.h"
#include "core/bytes.h"

namespace terrace::cli {
namespace {

using nlohmann::ordered_json;

std::ostream* archive_progress() { return ::isatty(STDERR_FILENO) == 1 ? &std::cerr : nullptr; }

struct ExportOptions {
  std::string file, space, prefix;
  bool pinned = false, resume = false, yes = false, json = false;
  std::optional<std::size_t> hottest;
};

Status run_export(const Program& program, const ExportOptions& options) {
  std::error_code unseen;
  if (std::filesystem::exists(std::filesystem::symlink_status(options.file, unseen)))
    if (Status status = confirm("Write over " + options.file + "?", options.yes); !status.ok())
      return status.with_context(options.file + " is there already");
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  ExportSelection selection;
  selection.pinned = options.pinned;
  selection.hottest = options.hottest;
  if (!options.space.empty()) {
    const auto space = resolve_space(**daemon, options.space);
    if (!space) return space.error();
    selection.space = space->digest();
  }
  if (!options.prefix.empty()) {
    const auto key = resolve_block(**daemon, options.prefix);
    if (!key) return key.error();
    selection.prefix = *key;
  }
  if (options.pinned) {
    const auto pins = (*daemon)->list_pins(call_deadline());
    if (!pins) return pins.error();
    for (const client::PinListing& pin : *pins) selection.pins.push_back(pin.key);
  }
  const auto outcome =
      export_archive(**daemon, options.file, selection, options.resume, archive_progress());
  if (!outcome) {
    const std::string unfinished = unfinished_archive_path(options.file);
    return open_archive_file(unfinished).has_value()
               ? Status(outcome.error().code(), outcome.error().message() + "; " + unfinished +
                                                    " has what was written: --resume goes on")
               : outcome.error();
  }
  if (options.json) {
    std::cout << ordered_json{{"file", options.file},
                              {"spaces", outcome->spaces},
                              {"blocks", outcome->blocks},
                              {"bytes", outcome->bytes},
                              {"kept", outcome->kept},
                              {"gone", outcome->gone},
                              {"unreachable", outcome->unreachable}}
                     .dump(-1, ' ', false, ordered_json::error_handler_t::replace)
              << "\n";
    return {};
  }
  std::cout << "wrote " << counted(outcome->blocks, "block") << " of "
            << counted(outcome->spaces, "space") << ", " << format_bytes(outcome->bytes) << ", to "
            << options.file;
  if (outcome->kept > 0) std::cout << "; " << outcome->kept << " were written before";
  if (outcome->gone > 0)
    std::cout << "; " << outcome->gone << " left out: " << printable(outcome->why_gone);
  if (outcome->unreachable > 0)
    std::cout << "; " << outcome->unreachable << " left out, since a block before them is missing";
  std::cout << "\n";
  return {};
}

struct ImportOptions {
  std::string file;
  bool dry_run = false, json = false;
};

Status run_import(const Program& program, const ImportOptions& options) {
  std::unique_ptr<client::OperatorClient> daemon;
  if (!options.dry_run) {
    auto connected = program.connect();
    if (!connected) return connected.error();
    daemon = std::move(*connected);
  }
  const auto report = import_archive(daemon.get(), options.file, archive_progress());
  if (!report) return report.error();
  if (options.json) {
    std::cout << ordered_json{{"file", options.file},         {"spaces", report->spaces},
                              {"blocks", report->blocks},     {"bytes", report->bytes},
                              {"imported", report->imported}, {"there", report->there},
                              {"no_room", report->no_room},   {"refused", report->refused},
                              {"refusal", report->refusal},   {"damages", report->damages},
                              {"complete", report->complete}}
                     .dump(-1, ' ', false, ordered_json::error_handler_t::replace)
              << "\n";
  } else if (options.dry_run) {
    std::cout << counted(report->blocks, "block") << " of " << counted(report->spaces, "space")
              << ", " << format_bytes(report->bytes) << ", verified\n";
  } else {
    std::cout << "imported " << counted(report->imported, "block") << ", " << report->there
              << " were there; refused " << report->refused << ", found no room for "
              << report->no_room << "\n";
  }
  if (report->whole()) return {};
  std::string problem;
  const auto add = [&](const std::string& what) {
    problem += (problem.empty() ? "" : "; ") + what;
  };
  if (report->damages > 0)
    add("the archive does not verify in " + counted(report->damages, "place"));
  else if (!report->complete)
    add("the archive is cut short");
  if (report->no_room + report->refused > 0) add(report->refusal);
  return Status(StatusCode::corruption, options.file + ": " + problem);
}

}  // namespace

void add_archive_verbs(Program& program) {
  auto of_export = std::make_shared<ExportOptions>();
  CLI::App* const exporting = program.add_verb(
      program.app, "export", "write prefixes to an archive", of_export, run_export);
  exporting->add_option("file", of_export->file, "the archive to write")
      ->required()
      ->type_name(file_type);
  exporting->add_option("--space", of_export->space, "only those of a space, by label or digest");
  exporting->add_option("--prefix", of_export->prefix, "the one that ends in this block");
  exporting->add_flag("--pinned", of_export->pinned, "those that are pinned");
  exporting->add_option("--hottest", of_export->hottest, "the N most recently used")
      ->type_name("N");
  exporting->add_flag("--resume", of_export->resume, "go on with an export that was cut short");
  exporting->add_flag("--yes", of_export->yes, "write over a file without a question");
  add_json_option(*exporting, of_export->json);

  auto of_import = std::make_shared<ImportOptions>();
  CLI::App* const importing =
      program.add_verb(program.app, "import", "bring in what an archive has and the daemon has not",
                       of_import, run_import);
  importing->add_option("file", of_import->file, "the archive to read")
      ->required()
      ->type_name(file_type);
  importing->add_flag("--dry-run", of_import->dry_run, "only read and verify the archive");
  add_json_option(*importing, of_import->json);
}

}  // namespace terrace::cli
