#include "client/cli/config.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "config/daemon_config.h"

namespace terrace::cli {
namespace {

Result<std::vector<config::Setting>> load(const ConfigSource& source) {
  std::vector<config::Override> overrides;
  for (const std::string& setting : source.settings) {
    auto parsed = config::Override::set(setting);
    if (!parsed) return error(parsed.error());
    overrides.push_back(std::move(*parsed));
  }
  std::optional<std::filesystem::path> file;
  if (source.file) file = *source.file;
  std::vector<config::Setting> settings;
  if (const auto loaded = config::load_daemon_config(file, overrides, &settings); !loaded)
    return error(loaded.error());
  return settings;
}

}  // namespace

Status check_config(const ConfigSource& source, std::ostream& out) {
  const auto settings = load(source);
  if (!settings) return settings.error();
  std::size_t set = 0;
  for (const config::Setting& setting : *settings) set += setting.where.empty() ? 0 : 1;
  out << "the configuration is good; " << set << " of " << settings->size()
      << " options are set, the others have their defaults\n";
  return {};
}

Status show_config(const ConfigSource& source, bool json, std::ostream& out) {
  const auto settings = load(source);
  if (!settings) return settings.error();
  if (!json) {
    out << config::to_toml(*settings);
    return {};
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const config::Setting& setting : *settings) {
    nlohmann::ordered_json one = {{"key", setting.key}};
    if (setting.secret)
      one["secret"] = setting.value;
    else
      one["value"] = setting.value;
    if (!setting.where.empty()) one["where"] = setting.where;
    list.push_back(std::move(one));
  }
  // Paths need not be UTF-8.
  out << list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return {};
}

}  // namespace terrace::cli
