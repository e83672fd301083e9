// Where Terrace keeps things unless told otherwise: the same answer for the daemon, the worker and
// the command line.
#pragma once

#include <string>

namespace terrace {

// $TERRACE_SOCKET, else /run/terrace/terraced.sock for root, else
// $XDG_RUNTIME_DIR/terrace/terraced.sock, else (no login session) terraced.sock in the user's
// default data directory, which nobody else can write to.
std::string default_socket_path();

// /var/lib/terrace for root, else $XDG_STATE_HOME/terrace, which is ~/.local/state/terrace unless
// set.
std::string default_data_dir();

}  // namespace terrace
