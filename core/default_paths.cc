#include "core/default_paths.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>

namespace terrace {
namespace {

// An absolute path from the environment, or empty: the XDG specification has relative ones ignored.
std::string absolute_path_from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] == '/' ? value : "";
}

std::string home_directory() {
  std::string home = absolute_path_from_environment("HOME");
  if (!home.empty()) return home;
  const passwd* user = getpwuid(geteuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "/";
}

}  // namespace

std::string default_data_dir() {
  if (geteuid() == 0) return "/var/lib/terrace";
  const std::string state = absolute_path_from_environment("XDG_STATE_HOME");
  return (state.empty() ? home_directory() + "/.local/state" : state) + "/terrace";
}

std::string default_socket_path() {
  if (const char* chosen = std::getenv("TERRACE_SOCKET"); chosen != nullptr && chosen[0] != '\0')
    return chosen;
  if (geteuid() == 0) return "/run/terrace/terraced.sock";
  const std::string runtime = absolute_path_from_environment("XDG_RUNTIME_DIR");
  return (runtime.empty() ? default_data_dir() : runtime + "/terrace") + "/terraced.sock";
}

}  // namespace terrace
