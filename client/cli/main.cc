// terrace: what operators ask a running daemon.
#include <iostream>
#include <string>

#include "client/cli/program.h"
#include "core/default_paths.h"

namespace terrace::cli {
namespace {

// One line that says what to do next.
std::string advice(const Status& status, const std::string& socket_path) {
  switch (status.code()) {
    case StatusCode::unavailable:
      return status.message() + "; start a daemon with 'terraced --socket " + socket_path +
             "', or name another with --socket or $TERRACE_SOCKET";
    case StatusCode::deadline_exceeded:
      return "the daemon at " + socket_path + " did not answer within " +
             std::to_string(call_timeout.count()) +
             " s: it is stopped or overloaded; its log may say more";
    default:
      return status.message();
  }
}

int run(int argc, char** argv) {
  Program program;
  program.socket_path = default_socket_path();
  CLI::App& app = program.app;
  app.set_version_flag("--version", "terrace " TERRACE_VERSION);
  app.require_subcommand(1);
  app.add_option("--socket", program.socket_path,
                 "where the daemon listens: $TERRACE_SOCKET, else the user's default")
      ->capture_default_str();
  app.fallthrough();
  add_service_verbs(program);
  add_cache_verbs(program);
  add_pin_verbs(program);
  add_config_verbs(program);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answer) {  // --help, --version
    return app.exit(answer);
  } catch (const CLI::ParseError& problem) {
    std::cerr << "terrace: " << problem.what() << " ('terrace --help' lists what there is)\n";
    return exit_usage;
  }

  Status status = program.chosen();
  if (status.ok() && !std::cout.flush())
    status = Status(StatusCode::io_error, "could not write to standard output");
  if (status.ok()) return 0;
  std::cerr << "terrace: " << advice(status, program.socket_path) << "\n";
  return exit_failure;
}

}  // namespace
}  // namespace terrace::cli

int main(int argc, char** argv) { return terrace::cli::run(argc, argv); }
