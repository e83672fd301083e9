// The daemon's figures as a Prometheus server scrapes them. docs/metrics.md lists them.
#pragma once

#include <string>

#include "cache_daemon/context.h"

namespace terrace::daemon {

constexpr const char* metrics_content_type = "text/plain; version=0.0.4; charset=utf-8";

std::string metrics_text(const Context& context);

}  // namespace terrace::daemon
