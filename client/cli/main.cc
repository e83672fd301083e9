// terrace: what operators ask a running daemon.
#include <iostream>
#include <string>

#include "client/cli/program.h"
#include "client/cli/usage.h"
#include "core/default_paths.h"

namespace terrace::cli {
namespace {

void add_all_verbs(Program& program) {
  add_service_verbs(program);
  add_look_verbs(program);
  add_warm_verb(program);
  add_pin_verbs(program);
  add_erase_verbs(program);
  add_config_verbs(program);
  add_doctor_verb(program);
  add_archive_verbs(program);
  add_verify_verb(program);
  add_generate_verbs(program);
}

// The end of --help.
std::string exit_code_text() {
  std::string text = "Exit status:";
  for (const ExitCode& code : exit_codes)
    text += "\n  " + std::to_string(code.value) + "  " + code.meaning;
  return text;
}

// One line that says what to do next.
std::string advice(const Status& status, const std::string& socket_path) {
  switch (status.code()) {
    case StatusCode::unavailable:
      if (socket_path.find("://") != std::string::npos) return status.message();
      return status.message() + "; start a daemon with 'terraced --socket " + socket_path +
             "', or name another with --socket or $TERRACE_SOCKET";
    case StatusCode::deadline_exceeded:
      return status.message() + ": the daemon at " + socket_path +
             " is stopped or overloaded; its log may say more";
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
  app.add_option("--connect", program.socket_path,
                 "the same, on another host: such as tls://cache.example:9471");
  client::Identity& identity = program.identity;
  app.add_option("--token-file", identity.token_file,
                 "a file whose first line is the token to show")
      ->type_name(file_type)
      ->envname("TERRACE_TOKEN_FILE");
  app.add_option("--ca-file", identity.ca_file, "for TLS, in PEM: whom to trust")
      ->type_name(file_type)
      ->envname("TERRACE_CA_FILE");
  app.add_option("--certificate-file", identity.certificate_file, "for TLS, in PEM: what to show")
      ->type_name(file_type)
      ->envname("TERRACE_CERTIFICATE_FILE");
  app.add_option("--key-file", identity.key_file, "its key")
      ->type_name(file_type)
      ->envname("TERRACE_KEY_FILE");
  app.add_option("--server-name", identity.server_name,
                 "the name in the daemon's certificate, if it is not the host that is connected to")
      ->envname("TERRACE_SERVER_NAME");
  app.fallthrough();
  app.footer(exit_code_text());
  add_all_verbs(program);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answer) {  // --help, --version
    return app.exit(answer);
  } catch (const CLI::ParseError& problem) {
    std::cerr << "terrace: " << usage_problem(app, problem) << "\n";
    return exit_usage;
  }

  Status status = program.chosen();
  if (status.ok() && !std::cout.flush())
    status = Status(StatusCode::io_error, "could not write to standard output");
  if (!status.ok()) std::cerr << "terrace: " << advice(status, program.socket_path) << "\n";
  return exit_code_of(status.code());
}

}  // namespace
}  // namespace terrace::cli

int main(int argc, char** argv) { return terrace::cli::run(argc, argv); }
