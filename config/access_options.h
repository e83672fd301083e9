// Who may connect, and what each may do.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "config/option_reader.h"

namespace terrace::config {

// Of the file of a Unix socket. Names and numbers of users and groups are looked up by the daemon.
struct SocketPermissions {
  mode_t mode = 0660;
  std::string owner, group;  // "": the daemon's
};

// A Unix socket beside the main one, for rules that name it.
struct SocketOptions {
  std::string name, path;
  SocketPermissions permissions;
};
// What rules call the daemon's first socket.
constexpr const char* main_socket_name = "main";
constexpr std::size_t max_more_sockets = 32;

// All of what a rule names must hold of a connection, of each list one entry; then it gives its
// roles.
struct AccessRule {
  std::string name;
  std::vector<std::string> users, groups;  // names or numbers; of the process, on a Unix socket
  std::vector<std::string> sockets;        // by name
  std::vector<std::string> certificates;   // common names, on TLS
  std::string token_file;                  // its first line
  bool worker = false, operate = false, read_only = false;
  std::string tenant;  // "": as the client asks
};
constexpr std::size_t max_access_rules = 256;

// Tenants whose spaces are named after the group, so that they share them.
struct TenantGroup {
  std::string name;
  std::vector<std::string> members;
};
constexpr std::size_t max_tenant_groups = 64;

struct AccessOptions {
  SocketPermissions socket;
  std::vector<SocketOptions> more_sockets;
  std::vector<AccessRule> rules;
  std::vector<TenantGroup> tenant_groups;
};

void read_access(OptionReader& options, const std::string& main_socket_path, AccessOptions& access);

}  // namespace terrace::config
