#include "cache_daemon/http/http_server.h"

#include <arpa/inet.h>
#include <kj/debug.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "cache_daemon/http/http_limits.h"
#include "cache_daemon/limits.h"
#include "cache_daemon/tcp_listener.h"
#include "core/status.h"
#include "protocol/kj_time.h"

namespace terrace::daemon {
namespace {

using protocol::kj_duration;

// Everything that the page needs comes from the daemon itself, and nothing may be framed or sent
// elsewhere.
constexpr kj::StringPtr content_security_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"_kj;

// A page on the web may have a browser ask for a name of its own that leads here. Whoever comes by
// an address, or as localhost, does not come by such a name.
bool is_own_host(std::string_view host) {
  if (const std::size_t colon = host.rfind(':');
      colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos)
    host = host.substr(0, colon);
  if (host == "localhost") return true;
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string text(in_brackets ? host.substr(1, host.size() - 2) : host);
  in6_addr bytes{};
  return ::inet_pton(in_brackets ? AF_INET6 : AF_INET, text.c_str(), &bytes) == 1;
}

kj::StringPtr reason(unsigned status) {
  switch (status) {
    case 200:
      return "OK";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 503:
      return "Service Unavailable";
    default:
      return "Error";
  }
}

}  // namespace

// One for all connections; it has no state but its table of names.
class HttpServer::Service final : public kj::HttpService {
 public:
  Service(kj::Timer& timer, bool any_host, Handler handler)
      : timer_(timer), any_host_(any_host), handler_(kj::mv(handler)) {
    kj::HttpHeaderTable::Builder names;
    allow_ = names.add("Allow");
    cache_control_ = names.add("Cache-Control");
    policy_ = names.add("Content-Security-Policy");
    referrer_ = names.add("Referrer-Policy");
    sniff_ = names.add("X-Content-Type-Options");
    table_ = names.build();
  }

  const kj::HttpHeaderTable& table() const { return *table_; }

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url,
                            const kj::HttpHeaders& headers, kj::AsyncInputStream&,
                            Response& response) override {
    if (method != kj::HttpMethod::GET && method != kj::HttpMethod::HEAD)
      return send(response, plain_answer(405, "only GET and HEAD\n"));
    const std::string_view host =
        headers.get(kj::HttpHeaderId::HOST)
            .map([](kj::StringPtr text) { return std::string_view(text.begin(), text.size()); })
            .orDefault(std::string_view());
    if (!any_host_ && !is_own_host(host))
      return send(response, plain_answer(403, "this is served to an address or localhost only\n"));
    const auto path = kj::heapString(url.slice(0, url.findFirst('?').orDefault(url.size())));
    auto answer = handler_(path);
    return answer.then(
        [this, &response](HttpAnswer made) { return send(response, std::move(made)); });
  }

 private:
  kj::Promise<void> send(Response& response, HttpAnswer answer) {
    kj::HttpHeaders headers(*table_);
    headers.set(kj::HttpHeaderId::CONTENT_TYPE, answer.type.c_str());
    headers.set(cache_control_, "no-store"_kj);
    headers.set(policy_, content_security_policy);
    headers.set(referrer_, "no-referrer"_kj);
    headers.set(sniff_, "nosniff"_kj);
    if (answer.status == 405) headers.set(allow_, "GET, HEAD"_kj);
    auto body = kj::heap<std::string>(std::move(answer.body));
    auto stream = response.send(answer.status, reason(answer.status), headers, body->size());
    auto written = stream->write(body->data(), body->size()).attach(kj::mv(stream), kj::mv(body));
    return timer_.timeoutAfter(kj_duration(http_answer_timeout), kj::mv(written));
  }

  kj::Timer& timer_;
  bool any_host_;
  Handler handler_;
  kj::Own<kj::HttpHeaderTable> table_;
  kj::HttpHeaderId allow_, cache_control_, policy_, referrer_, sniff_;
};

// What goes wrong is told to the log, not to whoever asked.
class HttpServer::ErrorAnswers final : public kj::HttpServerErrorHandler {
 public:
  explicit ErrorAnswers(const kj::HttpHeaderTable& table) : table_(table) {}

  kj::Promise<void> handleApplicationError(
      kj::Exception exception, kj::Maybe<kj::HttpService::Response&> response) override {
    spdlog::debug("an HTTP request failed: {}", exception.getDescription().cStr());
    KJ_IF_MAYBE (open, response) {
      return open->sendError(500, "Internal Server Error", table_);
    }
    return kj::READY_NOW;
  }

 private:
  const kj::HttpHeaderTable& table_;
};

HttpServer::HttpServer(kj::AsyncIoContext& io, const config::HttpOptions& options, Handler handler)
    : io_(io),
      service_(kj::heap<Service>(io.provider->getTimer(), options.allow_remote, kj::mv(handler))),
      errors_(kj::heap<ErrorAnswers>(service_->table())),
      tasks_(*this) {
  if (!options.listen) return;
  address_ = *options.listen;
  kj::HttpServerSettings settings;
  settings.headerTimeout = kj_duration(http_request_timeout);
  settings.pipelineTimeout = kj_duration(http_idle_timeout);
  settings.errorHandler = *errors_;
  server_ =
      kj::heap<kj::HttpServer>(io.provider->getTimer(), service_->table(), *service_, settings);
  tasks_.add(listen() ? accept_next() : listen_later());
}

HttpServer::~HttpServer() = default;

bool HttpServer::listen() {
  auto socket = listen_on(address_, static_cast<int>(max_http_connections));
  if (!socket) {
    if (!std::exchange(told_, true))
      spdlog::warn(
          "http: {} cannot be had: {}; the cache is served without it, and it is tried again",
          config::http_url(address_, address_.port), socket.error().message());
    return false;
  }
  fd_ = std::move(socket->fd);
  receiver_ = io_.lowLevelProvider->wrapListenSocketFd(
      fd_.get(),
      kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC | kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
  spdlog::info("http: listening on {}", config::http_url(address_, socket->port));
  return true;
}

kj::Promise<void> HttpServer::listen_later() {
  return io_.provider->getTimer().afterDelay(kj_duration(http_retry_interval)).then([this] {
    return listen() ? accept_next() : listen_later();
  });
}

kj::Promise<void> HttpServer::accept_next() {
  return receiver_->accept().then(
      [this](kj::Own<kj::AsyncIoStream>&& stream) -> kj::Promise<void> {
        if (connections_ < max_http_connections) {
          ++connections_;
          tasks_.add(
              server_->listenHttp(kj::mv(stream)).attach(kj::defer([this] { --connections_; })));
        }
        return accept_next();
      },
      [this](kj::Exception&& exception) -> kj::Promise<void> {
        spdlog::warn("http: could not accept a connection: {}", exception.getDescription().cStr());
        return io_.provider->getTimer().afterDelay(kj_duration(accept_pause)).then([this] {
          return accept_next();
        });
      });
}

void HttpServer::taskFailed(kj::Exception&& exception) {
  spdlog::debug("an HTTP connection ended: {}", exception.getDescription().cStr());
}

}  // namespace terrace::daemon
