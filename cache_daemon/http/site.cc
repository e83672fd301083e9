#include "cache_daemon/http/site.h"

#include "cache_daemon/http/metrics.h"
#include "cache_daemon/operator_server.h"

namespace terrace::daemon {
namespace {

HttpAnswer plain(unsigned status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::move(text)};
}

HttpAnswer json(std::string text) { return {200, "application/json", std::move(text)}; }

}  // namespace

kj::Promise<HttpAnswer> Site::answer(kj::StringPtr path) {
  // That the loop answers is the point.
  if (path == "/healthz") return plain(200, "ok\n");
  if (path == "/readyz") return ready();
  if (path == "/metrics") return HttpAnswer{200, metrics_content_type, metrics_text(context_)};
  if (path == "/api/stats") return json(stats_json(context_));
  return plain(404, "there is nothing here\n");
}

// Whether a worker that comes now is served. Recovery is over before anything listens.
HttpAnswer Site::ready() const {
  if (context_.draining) return plain(503, "draining\n");
  if (!context_.device.ready()) return plain(503, context_.device.reason() + "\n");
  return plain(200, "ready\n");
}

}  // namespace terrace::daemon
