// Verbs about terraced's configuration, which need no daemon.
#include <iostream>

#include "client/cli/config.h"
#include "client/cli/program.h"

namespace terrace::cli {
namespace {

struct ConfigOptions {
  ConfigSource source;
  bool json = false;
};

}  // namespace

void add_config_verbs(Program& program) {
  CLI::App* const config =
      program.app.add_subcommand("config", "terraced's configuration, without a daemon");
  config->require_subcommand(1);
  auto options = std::make_shared<ConfigOptions>();
  CLI::App* const check =
      program.add_verb(*config, "check", "say what is wrong with it", options,
                       [](const Program&, const ConfigOptions& of_check) {
                         return check_config(of_check.source, of_check.json, std::cout);
                       });
  CLI::App* const show =
      program.add_verb(*config, "show", "what every option is in the end", options,
                       [](const Program&, const ConfigOptions& of_show) {
                         return show_config(of_show.source, of_show.json, std::cout);
                       });
  for (CLI::App* verb : {check, show}) {
    verb->add_option("--config", options->source.file, "the file, as for terraced")
        ->type_name(file_type);
    verb->add_option("--set", options->source.settings, "one option, KEY=VALUE, as for terraced")
        ->allow_extra_args(false);
    add_json_option(*verb, options->json);
  }
}

}  // namespace terrace::cli
