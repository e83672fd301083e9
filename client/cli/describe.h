// The daemon's JSON about one block, a prompt or its sessions, for people.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "core/status.h"

namespace terrace::cli {

// Each: internal if the text is not what the daemon sends.

// `sessions`: of the daemon, to name who holds the block. `now_unix_ms` is what ages count from.
Status print_inspection(const std::string& json, const std::string& sessions,
                        std::int64_t now_unix_ms, std::ostream& out);
Status print_explanation(const std::string& json, std::ostream& out);
Status print_sessions(const std::string& json, std::ostream& out);

// "session 1 (a client, process 42)". not_found if there is no such session.
Result<std::string> session_text(const std::string& sessions, std::uint64_t id);

}  // namespace terrace::cli
