#include "cache_daemon/engines.h"

namespace terrace::daemon {

Result<std::unique_ptr<Engines>> open_engines(const config::DaemonConfig&) {
  return error(StatusCode::unimplemented, "engines");
}

}  // namespace terrace::daemon
