#include "client/cli/doctor/doctor.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/cli/doctor/disk_checks.h"
#include "client/cli/doctor/kernel_checks.h"
#include "client/cli/doctor/memory_checks.h"
#include "client/cli/doctor/redis_check.h"
#include "client/cli/doctor/service_checks.h"
#include "client/cli/text.h"
#include "config/daemon_config.h"
#include "core/clock.h"

namespace terrace::cli::doctor {
namespace {

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::ok:
      return "ok";
    case Severity::warning:
      return "warning";
    case Severity::problem:
      break;
  }
  return "problem";
}

void append(Findings& findings, Findings more) {
  std::ranges::move(more, std::back_inserter(findings));
}

std::size_t count_of(const Findings& findings, Severity severity) {
  return static_cast<std::size_t>(std::ranges::count(findings, severity, &Finding::severity));
}

void look_at_disks(const config::DaemonConfig& config, bool measure, Findings& findings) {
  if (!config.disk.enabled) {
    findings.push_back({"data", Severity::ok, "there is no disk tier", ""});
    return;
  }
  std::vector<std::string> directories = config.disk.data_dirs;
  if (directories.empty()) directories.push_back(config.data_dir);
  for (const std::string& directory : directories)
    append(findings, check_directory(gather_directory(
                         directory, config.disk.capacity_bytes / directories.size(), measure)));
}

}  // namespace

Findings examine(const DoctorOptions& options, const Result<std::string>& stats) {
  Findings findings;
  const auto loaded = load_config(options.source);
  append(findings,
         check_configuration(loaded ? Status() : loaded.error(), options.source.file.value_or("")));
  // What can be looked at without the file is looked at with the defaults.
  const config::DaemonConfig config =
      loaded ? *loaded : load_config({}).value_or(config::DaemonConfig());

  const SocketFacts socket = gather_socket(options.socket_path);
  append(findings, check_socket(socket));
  int pid = 0;
  if (socket.is_socket && socket.connect_error == 0) {
    const auto daemon = stats ? read_daemon(*stats, options.version) : error(stats.error());
    if (daemon) {
      pid = daemon->pid;
      append(findings, check_daemon(*daemon));
    } else {
      findings.push_back({"daemon", Severity::problem, daemon.error().message(),
                          "see the daemon's log, or restart it"});
    }
  }

  append(findings, check_ring(gather_ring(config.disk.ring)));
  const GpuFacts gpu = gather_gpu(config.device.kind);
  // Without it the device tier is the machine's memory, and there is no host tier unless asked for.
  const bool on_gpu = gpu.wanted && !gpu.name.empty();
  const std::uint64_t host_bytes = config.host.capacity_bytes.value_or(on_gpu ? gib : 0);
  LimitFacts limits = gather_limits(pid);
  limits.max_sessions = config.limits.max_sessions;
  limits.pinned_bytes = on_gpu ? host_bytes : 0;
  append(findings, check_limits(limits));
  append(findings, check_memory(gather_memory(
                       (on_gpu ? 0 : config.device.capacity_bytes) + host_bytes, pid)));
  append(findings, check_gpu(gpu));
  look_at_disks(config, options.measure_disks, findings);
  for (const std::string& endpoint : config.redis.endpoints)
    append(findings, check_redis(gather_redis(endpoint, config.redis)));
  append(findings, check_clock(SystemClock().unix_ms()));
  return findings;
}

void print_findings(const Findings& findings, bool json, std::ostream& out) {
  const std::size_t warnings = count_of(findings, Severity::warning),
                    problems = count_of(findings, Severity::problem);
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
      nlohmann::ordered_json one = {{"check", finding.check},
                                    {"result", severity_name(finding.severity)},
                                    {"what", finding.what}};
      if (!finding.advice.empty()) one["advice"] = finding.advice;
      list.push_back(std::move(one));
    }
    // Paths need not be UTF-8.
    out << nlohmann::ordered_json{{"problems", problems},
                                  {"warnings", warnings},
                                  {"checks", std::move(list)}}
               .dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace)
        << "\n";
    return;
  }
  for (const Finding& finding : findings) {
    out << std::left << std::setw(9) << severity_name(finding.severity) << std::setw(12)
        << finding.check << printable(finding.what) << "\n";
    if (!finding.advice.empty())
      out << std::setw(21) << ""
          << "-> " << printable(finding.advice) << "\n";
  }
  out << counted(problems, "problem") << ", " << counted(warnings, "warning") << "\n";
}

Status verdict(const Findings& findings, bool strict) {
  const std::size_t problems = count_of(findings, Severity::problem),
                    warnings = strict ? count_of(findings, Severity::warning) : 0;
  if (problems + warnings == 0) return {};
  return Status(StatusCode::failed_precondition,
                counted(problems, "problem") +
                    (strict ? " and " + counted(warnings, "warning") : "") + " found");
}

}  // namespace terrace::cli::doctor
