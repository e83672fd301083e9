#include "cache_daemon/command_line.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <vector>

#include "cache_daemon/context.h"

namespace terrace::daemon {

Result<std::variant<Options, Answer>> read_command_line(int argc, char** argv) {
  CLI::App app("Keeps the KV cache of LLM prompts in tiers of memory for the workers of this host.",
               "terraced");
  std::optional<std::string> file, data_dir, socket;
  std::vector<std::string> settings;
  app.add_option("--config", file, "A TOML file; terraced.toml lists every option");
  app.add_option("--data-dir", data_dir, "Where the disk tier lives");
  app.add_option("--socket", socket, "The Unix socket to listen on");
  app.add_option("--set", settings, "One option, KEY=VALUE; wins over the file")
      ->allow_extra_args(false);
  app.fallthrough();
  VerifyCommand verify;
  CLI::App* const verifying = app.add_subcommand(
      "verify", "Read every record of a data directory that no daemon has, instead of serving");
  verifying->fallthrough();
  verifying->add_flag("--repair", verify.repair, "Erase the records that do not verify");
  verifying->add_flag("--yes", verify.yes, "Do not ask");
  verifying->add_flag("--json", verify.json, "Print JSON, for programs");
  app.set_version_flag("--version", std::string("terraced ") + version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return Answer{app.help()};
  } catch (const CLI::CallForVersion&) {
    return Answer{app.version() + "\n"};
  } catch (const CLI::ParseError& problem) {
    return error(StatusCode::invalid_argument, problem.what());
  }

  std::vector<config::Override> overrides;
  for (const std::string& setting : settings) {
    auto parsed = config::Override::set(setting);
    if (!parsed) return error(parsed.error());
    overrides.push_back(std::move(*parsed));
  }
  if (data_dir) overrides.push_back(config::Override::flag("--data-dir", "data_dir", *data_dir));
  if (socket) overrides.push_back(config::Override::flag("--socket", "socket", *socket));
  std::optional<std::filesystem::path> path;
  if (file) path = *file;
  Options options;
  if (verifying->parsed()) options.verify = verify;
  auto config = config::load_daemon_config(path, overrides, &options.settings);
  if (!config) return error(config.error());
  options.config = std::move(*config);
  return options;
}

}  // namespace terrace::daemon
