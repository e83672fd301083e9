#include "cache_daemon/reload.h"

#include <algorithm>
#include <map>

namespace terrace::daemon {
namespace {

using config::DaemonConfig;
using config::Setting;
using config::TenantOptions;

// "research" of "tenants.research.disk".
std::string tenant_of(const std::string& key) {
  const std::string before = "tenants.";
  if (!key.starts_with(before)) return {};
  return key.substr(before.size(), key.rfind('.') - before.size());
}

bool may_change(const std::string& key, const DaemonConfig& running) {
  if (key == "log.level" || key == "log.slow_ms" || key == "drain_deadline_s") return true;
  if (key.starts_with("spaces.") || key.starts_with("access.")) return true;
  const std::string tenant = tenant_of(key);
  return !tenant.empty() &&
         std::ranges::find(running.tenants, tenant, &TenantOptions::name) != running.tenants.end();
}

std::map<std::string, std::string> values_of(const std::vector<Setting>& settings) {
  std::map<std::string, std::string> values;
  for (const Setting& setting : settings) values[setting.key] = setting.value;
  return values;
}

}  // namespace

config::AccessOptions access_to_take_over(const DaemonConfig& running, const DaemonConfig& wanted) {
  // Whoever has logged in knows by what names tenants share.
  config::AccessOptions access = running.access;
  access.rules = wanted.access.rules;
  return access;
}

Reload take_over(Options& running, const Options& wanted) {
  Reload reload;
  const auto before = values_of(running.settings), after = values_of(wanted.settings);
  std::map<std::string, std::string> all = before;
  all.insert(after.begin(), after.end());
  for (const auto& [key, value] : all) {
    const auto was = before.find(key), is = after.find(key);
    if (was != before.end() && is != after.end() && was->second == is->second) continue;
    if (!may_change(key, running.config)) {
      reload.at_next_start.push_back(key);
      continue;
    }
    reload.applied.push_back(key);
    std::erase_if(running.settings, [&](const Setting& setting) { return setting.key == key; });
    const auto set = std::ranges::find(wanted.settings, key, &Setting::key);
    if (set != wanted.settings.end()) running.settings.push_back(*set);
  }
  running.config.log.level = wanted.config.log.level;
  running.config.log.slow = wanted.config.log.slow;
  running.config.drain_deadline = wanted.config.drain_deadline;
  running.config.spaces = wanted.config.spaces;
  running.config.access = access_to_take_over(running.config, wanted.config);
  for (TenantOptions& tenant : running.config.tenants) {
    const auto set = std::ranges::find(wanted.config.tenants, tenant.name, &TenantOptions::name);
    tenant = set != wanted.config.tenants.end() ? *set : TenantOptions{.name = tenant.name};
  }
  return reload;
}

}  // namespace terrace::daemon
