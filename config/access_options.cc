#include "config/access_options.h"

#include <algorithm>
#include <set>

#include "config/paths.h"

namespace terrace::config {
namespace {

// "socket_mode" of the main socket, "sockets.NAME.mode" of another.
void read_socket_file(OptionReader& options, const std::string& prefix,
                      SocketPermissions& permissions) {
  std::string mode = "0660";
  options.text(prefix + "mode", mode);
  const bool octal = mode.size() >= 3 && mode.size() <= 4 &&
                     std::ranges::all_of(mode, [](char c) { return c >= '0' && c <= '7'; }) &&
                     (mode.size() == 3 || mode[0] == '0');
  if (octal)
    permissions.mode = static_cast<mode_t>(std::stoul(mode, nullptr, 8));
  else
    options.problem(prefix + "mode",
                    "found the text '" + mode + "', expected octal digits such as \"0660\"");
  options.text(prefix + "owner", permissions.owner);
  options.text(prefix + "group", permissions.group);
}

void read_more_sockets(OptionReader& options, const std::string& main_path,
                       std::vector<SocketOptions>& sockets) {
  std::set<std::string> paths = {main_path};
  for (const std::string& name : options.names_in("sockets")) {
    SocketOptions& socket = sockets.emplace_back();
    socket.name = name;
    const std::string prefix = "sockets." + name + ".";
    read_socket_path(options, prefix + "path", socket.path);
    read_socket_file(options, prefix, socket.permissions);
    if (name == main_socket_name)
      options.problem(prefix + "path", "found the name of the first socket, expected another");
    if (!paths.insert(socket.path).second)
      options.problem(prefix + "path", "found the path of another socket, expected one of its own");
  }
  if (sockets.size() > max_more_sockets)
    options.problem("sockets", "found " + std::to_string(sockets.size()) +
                                   " sockets, expected at most " +
                                   std::to_string(max_more_sockets));
}

void read_roles(OptionReader& options, const std::string& key, AccessRule& rule) {
  std::vector<std::string> roles;
  options.texts(key, roles);
  for (const std::string& role : roles) {
    if (role == "worker")
      rule.worker = true;
    else if (role == "operator")
      rule.operate = true;
    else if (role == "read_only")
      rule.read_only = true;
    else
      options.problem(
          key, "found the role '" + role + "', expected \"worker\", \"operator\" or \"read_only\"");
  }
  if (roles.empty()) options.problem(key, "found no role, expected such as [\"worker\"]");
}

void read_rules(OptionReader& options, AccessOptions& access) {
  for (const std::string& name : options.names_in("access")) {
    AccessRule& rule = access.rules.emplace_back();
    rule.name = name;
    const std::string prefix = "access." + name + ".";
    options.texts(prefix + "users", rule.users);
    options.texts(prefix + "groups", rule.groups);
    options.texts(prefix + "sockets", rule.sockets);
    options.texts(prefix + "certificates", rule.certificates);
    options.text(prefix + "token_file", rule.token_file);
    read_roles(options, prefix + "roles", rule);
    options.text(prefix + "tenant", rule.tenant);
    // One that asked for nothing would let everybody in.
    if (rule.users.empty() && rule.groups.empty() && rule.sockets.empty() &&
        rule.certificates.empty() && rule.token_file.empty())
      options.problem(prefix + "roles",
                      "found nobody that it is for, expected users, groups, sockets, certificates "
                      "or token_file beside it");
    for (const std::string& socket : rule.sockets)
      if (socket != main_socket_name &&
          std::ranges::find(access.more_sockets, socket, &SocketOptions::name) ==
              access.more_sockets.end())
        options.problem(prefix + "sockets", "found '" + socket +
                                                "', expected \"main\" or the name of a section of "
                                                "[sockets]");
  }
  if (access.rules.size() > max_access_rules)
    options.problem("access", "found " + std::to_string(access.rules.size()) +
                                  " rules, expected at most " + std::to_string(max_access_rules));
}

void read_tenant_groups(OptionReader& options, std::vector<TenantGroup>& groups) {
  std::set<std::string> members;
  for (const std::string& name : options.names_in("tenant_groups")) {
    TenantGroup& group = groups.emplace_back();
    group.name = name;
    const std::string key = "tenant_groups." + name + ".members";
    options.texts(key, group.members);
    for (const std::string& member : group.members)
      if (member.empty() || !members.insert(member).second)
        options.problem(
            key, member.empty()
                     ? "found an empty text, expected tenants"
                     : "found '" + member + "' in more than one group, expected one for each");
  }
  // Its spaces would be shared with tenants who were not told so.
  for (const TenantGroup& group : groups)
    if (members.contains(group.name))
      options.problem("tenant_groups." + group.name + ".members",
                      "found the group's name among the members of a group, expected a name of its "
                      "own");
  if (groups.size() > max_tenant_groups)
    options.problem("tenant_groups", "found " + std::to_string(groups.size()) +
                                         " groups, expected at most " +
                                         std::to_string(max_tenant_groups));
}

}  // namespace

void read_access(OptionReader& options, const std::string& main_socket_path,
                 AccessOptions& access) {
  read_socket_file(options, "socket_", access.socket);
  read_more_sockets(options, main_socket_path, access.more_sockets);
  read_rules(options, access);
  read_tenant_groups(options, access.tenant_groups);
}

}  // namespace terrace::config
