// `terrace doctor`.
#include <iostream>

#include "client/cli/doctor/doctor.h"
#include "client/cli/program.h"

namespace terrace::cli {
namespace {

struct DoctorVerbOptions {
  ConfigSource source;
  bool no_speed = false, strict = false, json = false;
};

Status run_doctor(const Program& program, const DoctorVerbOptions& options) {
  if (program.socket_path.find("://") != std::string::npos)
    return Status(
        StatusCode::invalid_argument,
        "doctor looks at the machine that it runs on: leave out --connect, or run it there");
  doctor::DoctorOptions examined;
  examined.source = options.source;
  examined.socket_path = program.socket_path;
  examined.measure_disks = !options.no_speed;
  examined.version = TERRACE_VERSION;
  // A configuration may name another socket than the default.
  if (!program.socket_named()) {
    if (const auto config = load_config(options.source); config && !config->socket_path.empty())
      examined.socket_path = config->socket_path;
  }
  const auto stats =
      client::fetch_stats_json(examined.socket_path, call_deadline(), program.identity);
  const doctor::Findings findings = doctor::examine(examined, stats);
  doctor::print_findings(findings, options.json, std::cout);
  return doctor::verdict(findings, options.strict);
}

}  // namespace

void add_doctor_verb(Program& program) {
  auto options = std::make_shared<DoctorVerbOptions>();
  CLI::App* const verb = program.add_verb(
      program.app, "doctor",
      "what is wrong with configuration, daemon, machine and disks, and what to do", options,
      run_doctor);
  verb->add_option("--config", options->source.file, "the file, as for terraced")
      ->type_name(file_type);
  verb->add_option("--set", options->source.settings, "one option, KEY=VALUE, as for terraced")
      ->allow_extra_args(false);
  verb->add_flag("--no-speed", options->no_speed,
                 "do not measure disks: 64 MiB are written, read and removed otherwise");
  verb->add_flag("--strict", options->strict, "end with status 1 for warnings, too");
  add_json_option(*verb, options->json);
}

}  // namespace terrace::cli
