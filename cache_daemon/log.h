// The daemon's log: lines for people, or one JSON object each.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "config/daemon_config.h"

namespace terrace::daemon {

// To standard error, from here on. Whatever is written, a line is a line.
void set_up_log(const config::LogOptions& options);
// Only what may change while the daemon runs.
void set_log_level(config::LogLevel level);

// A line whose figures a program reads: "what name=value name=value", or members of the object.
using LogValue = std::variant<std::int64_t, std::uint64_t, double, std::string>;
using LogField = std::pair<std::string_view, LogValue>;
void log_event(config::LogLevel level, std::string_view what,
               std::initializer_list<LogField> fields);

}  // namespace terrace::daemon
