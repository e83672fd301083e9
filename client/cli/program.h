// The command line of terrace: every verb adds itself, with its options and what it does.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <string>

#include "client/cli/exit_codes.h"
#include "client/operator.h"
#include "core/status.h"

namespace terrace::cli {

// A daemon that is stopped or overloaded: a person waits no longer than this for one answer.
constexpr std::chrono::seconds call_timeout{5};

struct Program {
  CLI::App app{"Shows what a running terraced has cached, and keeps it there.", "terrace"};
  std::string socket_path;  // or another address
  client::Identity identity;
  bool socket_named() const {
    return app.get_option("--socket")->count() + app.get_option("--connect")->count() > 0;
  }
  std::function<Status()> chosen;  // what the verb on the command line does

  // Adds a verb. `options` are the verb's own, filled when it is parsed; `run` gets them.
  template <typename Options, typename Run>
  CLI::App* add_verb(CLI::App& parent, const std::string& name, const std::string& what,
                     std::shared_ptr<Options> options, Run run) {
    CLI::App* const verb = parent.add_subcommand(name, what);
    verb->callback([this, options = std::move(options), run = std::move(run)] {
      chosen = [this, options, run] { return run(*this, *options); };
    });
    return verb;
  }

  Result<std::unique_ptr<client::OperatorClient>> connect() const {
    return client::OperatorClient::connect(socket_path, identity);
  }
};

inline client::Deadline call_deadline() { return client::Deadline::clock::now() + call_timeout; }

struct NoOptions {};
struct JsonOption {
  bool json = false;
};
constexpr const char* file_type = "FILE";  // completions and the manual know it by this
inline void add_json_option(CLI::App& verb, bool& json) {
  verb.add_flag("--json", json, "print JSON, for programs");
}

void add_service_verbs(Program& program);  // the daemon as a whole
void add_look_verbs(Program& program);     // what is cached
void add_warm_verb(Program& program);
void add_pin_verbs(Program& program);
void add_erase_verbs(Program& program);
void add_config_verbs(Program& program);
void add_doctor_verb(Program& program);
void add_archive_verbs(Program& program);  // export, import
void add_verify_verb(Program& program);
void add_generate_verbs(Program& program);  // this program itself

}  // namespace terrace::cli
