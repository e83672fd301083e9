#include "cache_daemon/http/site.h"

#include <nlohmann/json.hpp>

#include "cache_daemon/http/http_limits.h"
#include "cache_daemon/http/metrics.h"
#include "cache_daemon/http/page_files.h"
#include "cache_daemon/operator_server.h"

namespace terrace::daemon {
namespace {

HttpAnswer json(std::string text) { return {200, "application/json", std::move(text)}; }

const char* type_of(std::string_view path) {
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".svg")) return "image/svg+xml";
  return "text/html; charset=utf-8";
}

std::string pins_json(const Context& context) {
  using nlohmann::ordered_json;
  ordered_json list = ordered_json::array();
  const std::vector<storage::PinInfo> pins = context.cache.pins();
  for (const storage::PinInfo& pin : pins) {
    if (list.size() == max_shown_pins) break;
    list.push_back({{"key", pin.key.hex()},
                    {"space", pin.space.hex()},
                    {"tier", pin.tier ? ordered_json(to_string(*pin.tier)) : ordered_json()},
                    {"expires_unix_ms", pin.expires_unix_ms},
                    {"blocks", pin.blocks},
                    {"bytes", pin.bytes},
                    {"whole", pin.whole}});
  }
  return ordered_json{{"pins", std::move(list)}, {"total", pins.size()}}.dump();
}

}  // namespace

kj::Promise<HttpAnswer> Site::answer(kj::StringPtr path) {
  // That the loop answers is the point.
  if (path == "/healthz") return plain_answer(200, "ok\n");
  if (path == "/readyz") return ready();
  if (path == "/metrics") return HttpAnswer{200, metrics_content_type, metrics_text(context_)};
  if (path == "/api/stats") return json(stats_json(context_));
  if (path == "/api/history") return json(history_.json());
  if (path == "/api/pins") return json(pins_json(context_));
  if (path == "/api/prefixes")
    return prefixes_.json().then([](std::string made) { return json(std::move(made)); });
  const std::string_view wanted = path == "/" ? "/index.html" : std::string_view(path.cStr());
  for (const PageFile& file : page_files())
    if (file.path == wanted) return HttpAnswer{200, type_of(wanted), std::string(file.bytes)};
  return plain_answer(404, "there is nothing here\n");
}

// Whether a worker that comes now is served. Recovery is over before anything listens.
HttpAnswer Site::ready() const {
  if (context_.draining) return plain_answer(503, "draining\n");
  if (!context_.device.ready()) return plain_answer(503, context_.device.reason() + "\n");
  return plain_answer(200, "ready\n");
}

}  // namespace terrace::daemon
