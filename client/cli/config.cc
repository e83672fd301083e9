#include "client/cli/config.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

namespace terrace::cli {
namespace {

// A mistake in the configuration is none in the command line.
Status refused(const Status& problem) {
  return problem.code() == StatusCode::invalid_argument
             ? Status(StatusCode::failed_precondition, problem.message())
             : problem;
}

// What TOML writes is JSON, too, but for what is not UTF-8 and for numbers without an end.
nlohmann::ordered_json json_value(const std::string& toml) {
  auto value = nlohmann::ordered_json::parse(toml, nullptr, false);
  return value.is_discarded() ? nlohmann::ordered_json(toml) : value;
}

}  // namespace

Result<config::DaemonConfig> load_config(const ConfigSource& source,
                                         std::vector<config::Setting>* settings) {
  std::vector<config::Override> overrides;
  for (const std::string& setting : source.settings) {
    auto parsed = config::Override::set(setting);
    if (!parsed) return error(parsed.error());
    overrides.push_back(std::move(*parsed));
  }
  std::optional<std::filesystem::path> file;
  if (source.file) file = *source.file;
  return config::load_daemon_config(file, overrides, settings);
}

Status check_config(const ConfigSource& source, bool json, std::ostream& out) {
  std::vector<config::Setting> settings;
  if (const auto loaded = load_config(source, &settings); !loaded) {
    if (json)
      out << nlohmann::ordered_json{{"good", false}, {"problem", loaded.error().message()}}.dump(
                 -1, ' ', false, nlohmann::json::error_handler_t::replace)
          << "\n";
    return refused(loaded.error());
  }
  std::size_t set = 0;
  for (const config::Setting& setting : settings) set += setting.where.empty() ? 0 : 1;
  if (json) {
    out << nlohmann::ordered_json{{"good", true}, {"set", set}, {"options", settings.size()}}
        << "\n";
    return {};
  }
  out << "the configuration is good; " << set << " of " << settings.size()
      << " options are set, the others have their defaults\n";
  return {};
}

Status show_config(const ConfigSource& source, bool json, std::ostream& out) {
  std::vector<config::Setting> settings;
  if (const auto loaded = load_config(source, &settings); !loaded) return refused(loaded.error());
  if (!json) {
    out << config::to_toml(settings);
    return {};
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const config::Setting& setting : settings) {
    nlohmann::ordered_json one = {{"key", setting.key}};
    if (setting.secret)
      one["secret"] = setting.value;
    else
      one["value"] = json_value(setting.value);
    if (!setting.where.empty()) one["where"] = setting.where;
    list.push_back(std::move(one));
  }
  // Paths need not be UTF-8.
  out << list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return {};
}

}  // namespace terrace::cli
