// `terrace verify`: of a running daemon, or of a store that none has open.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <vector>

#include "client/cli/confirm.h"
#include "client/cli/program.h"
#include "client/cli/verify_daemon.h"

namespace terrace::cli {
namespace {

struct VerifyVerbOptions {
  std::string data_dir, config;
  VerifyOptions verify;
  bool yes = false, json = false;
};

// What reads records is a verb of terraced, which lies beside this program where both were
// installed together.
Status run_terraced_verify(const VerifyVerbOptions& options) {
  std::vector<std::string> words = {"terraced", "verify"};
  if (!options.config.empty()) words.insert(words.end(), {"--config", options.config});
  if (!options.data_dir.empty()) words.insert(words.end(), {"--data-dir", options.data_dir});
  if (options.verify.remove) words.emplace_back("--repair");
  if (options.yes) words.emplace_back("--yes");
  if (options.json) words.emplace_back("--json");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::error_code failed;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const auto beside = self.parent_path() / "terraced";
  if (!failed && std::filesystem::exists(beside, failed)) ::execv(beside.c_str(), arguments.data());
  ::execvp("terraced", arguments.data());
  return Status(StatusCode::io_error,
                std::string("could not run terraced, which verifies a stopped store: ") +
                    std::strerror(errno));
}

Status run_verify(const Program& program, const VerifyVerbOptions& options) {
  if (!options.data_dir.empty() || !options.config.empty()) return run_terraced_verify(options);
  if (options.verify.remove)
    if (Status status = confirm("Remove every copy that does not verify?", options.yes);
        !status.ok())
      return status;
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  const auto report = verify_daemon(**daemon, options.verify, on_terminal ? &std::cerr : nullptr);
  if (!report) return report.error();
  if (options.json)
    print_verify_report_json(*report, std::cout);
  else
    print_verify_report(*report, std::cout);
  if (report->bad.empty()) return {};
  return Status(StatusCode::corruption,
                std::to_string(report->bad.size()) + " copies do not verify");
}

}  // namespace

void add_verify_verb(Program& program) {
  auto options = std::make_shared<VerifyVerbOptions>();
  CLI::App* const verb = program.add_verb(program.app, "verify",
                                          "read everything and say what is not as it was written",
                                          options, run_verify);
  CLI::Option* const data_dir =
      verb->add_option("--data-dir", options->data_dir, "a store that no daemon has open")
          ->type_name(file_type);
  CLI::Option* const config =
      verb->add_option("--config", options->config, "the stores of a daemon's configuration")
          ->type_name(file_type);
  verb->add_flag("--repair", options->verify.remove, "remove what does not verify");
  verb->add_option("--share", options->verify.share,
                   "of a running daemon: the part of the time that may go to reading")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str()
      ->excludes(data_dir)
      ->excludes(config);
  verb->add_flag("--yes", options->yes, "do not ask");
  add_json_option(*verb, options->json);
}

}  // namespace terrace::cli
