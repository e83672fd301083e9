#include "inference/server/api_server.h"

#include <kj/debug.h>
#include <kj/encoding.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>

#include <string>
#include <string_view>
#include <utility>

#include "inference/server/active_call.h"
#include "inference/server/answer_json.h"
#include "inference/server/hang_up.h"
#include "inference/server/send.h"
#include "protocol/kj_time.h"

namespace terrace::inference {

namespace {

constexpr std::chrono::milliseconds accept_pause{100};  // after accepting failed

using protocol::kj_duration;

struct Body {
  std::string text;
  bool too_long = false;  // then the text is not all of it
};

// Reads a body to its end, or to its limit.
class BodyReader {
 public:
  BodyReader(kj::AsyncInputStream& stream, std::size_t limit_bytes)
      : stream_(stream), limit_bytes_(limit_bytes) {}

  kj::Promise<Body> read() {
    return stream_.tryRead(buffer_, 1, sizeof buffer_)
        .then([this](std::size_t got) -> kj::Promise<Body> {
          body_.text.append(buffer_, got);
          body_.too_long = body_.text.size() > limit_bytes_;
          if (got == 0 || body_.too_long) return std::move(body_);
          return read();
        });
  }

 private:
  kj::AsyncInputStream& stream_;
  const std::size_t limit_bytes_;
  Body body_;
  char buffer_[1 << 14];
};

std::string_view view(kj::StringPtr text) { return {text.begin(), text.size()}; }

bool is_json(std::string_view content_type) {
  const std::size_t end = content_type.find_first_of("; ");
  return content_type.substr(0, end) == "application/json";
}

}  // namespace

// The requests of one connection.
class ApiServer::Connection final : public kj::HttpService {
 public:
  Connection(ServerContext& context, kj::AsyncIoStream& stream)
      : context_(context), fd_(stream.getFd().orDefault(-1)) {}

  kj::Promise<void> request(kj::HttpMethod method, kj::StringPtr url,
                            const kj::HttpHeaders& headers, kj::AsyncInputStream& body,
                            Response& response) override {
    const std::string path(view(url).substr(0, view(url).find('?')));
    const bool is_call = path == "/v1/completions" || path == "/v1/chat/completions";
    const bool is_get = method == kj::HttpMethod::GET || method == kj::HttpMethod::HEAD;
    if (path.starts_with("/v1/") && !admitted(headers))
      return refuse(response, {.status = 401,
                               .message = "this needs a valid API key",
                               .type = "authentication_error",
                               .param = {},
                               .code = "invalid_api_key"});
    if (is_call && method == kj::HttpMethod::POST)
      return call(path.ends_with("/chat/completions") ? ApiKind::chat : ApiKind::completion,
                  headers, body, response);
    if (is_get && path == "/health") return health(response);
    if (is_get && path == "/metrics")
      return send_text(context_, response, 200, metrics_content_type,
                       context_.metrics.text(context_.scheduler.stats(), context_.open_requests,
                                             context_.draining));
    if (is_get && path == "/v1/models")
      return send_text(
          context_, response, 200, json_content_type,
          models_json(context_.model, context_.started_unix_s, context_.context_length));
    // A model's name may have bytes that an address writes in another way, as "a/b".
    constexpr std::string_view models = "/v1/models/";
    if (is_get && path.starts_with(models) &&
        view(kj::decodeUriComponent(kj::StringPtr(path.c_str() + models.size()))) == context_.model)
      return send_text(
          context_, response, 200, json_content_type,
          model_json(context_.model, context_.started_unix_s, context_.context_length));
    const bool known = is_call || path == "/health" || path == "/metrics" || path == "/v1/models";
    return refuse(response, {.status = known ? 405 : 404,
                             .message = known ? "not with this method" : "there is nothing here",
                             .param = {},
                             .code = known ? "method_not_allowed" : "not_found"});
  }

 private:
  bool admitted(const kj::HttpHeaders& headers) const {
    KJ_IF_MAYBE (text, headers.get(context_.headers.authorization)) {
      return context_.keys.admit(view(*text));
    }
    return !context_.keys.required();
  }

  kj::Promise<void> refuse(Response& response, const ApiError& error) {
    return send_error(context_, response, error);
  }

  kj::Promise<void> health(Response& response) {
    return send_text(context_, response, context_.draining ? 503 : 200, json_content_type,
                     context_.draining ? R"({"status":"draining"})" : R"({"status":"ok"})");
  }

  kj::Promise<void> call(ApiKind kind, const kj::HttpHeaders& headers, kj::AsyncInputStream& body,
                         Response& response) {
    if (context_.draining)
      return refuse(response, {.status = 503,
                               .message = "the server is about to end",
                               .type = "service_unavailable_error",
                               .param = {},
                               .code = "draining"});
    // A page on the web can make a browser send anything else, unasked.
    const bool json = headers.get(kj::HttpHeaderId::CONTENT_TYPE)
                          .map([](kj::StringPtr type) { return is_json(view(type)); })
                          .orDefault(false);
    if (!json)
      return refuse(
          response,
          {.status = 415, .message = "the Content-Type must be application/json", .param = {}});
    const std::size_t limit_bytes = context_.options.max_body_bytes;
    KJ_IF_MAYBE (length, body.tryGetLength()) {
      if (*length > limit_bytes) return too_large(response);
    }
    auto reader = kj::heap<BodyReader>(body, limit_bytes);
    auto text = reader->read();
    return context_.timer
        .timeoutAfter(kj_duration(http_request_timeout), text.attach(kj::mv(reader)))
        .then([this, kind, &response](Body read) -> kj::Promise<void> {
          if (read.too_long) return too_large(response);
          auto active = kj::heap<ActiveCall>(context_, kind, response);
          auto answered = active->answer(std::move(read.text));
          return answered.exclusiveJoin(when_hung_up(context_.event_port, fd_))
              .attach(kj::mv(active));
        });
  }

  kj::Promise<void> too_large(Response& response) {
    return refuse(response, {.status = 413,
                             .message = "the body is longer than " +
                                        std::to_string(context_.options.max_body_bytes) + " bytes",
                             .param = {}});
  }

  ServerContext& context_;
  const int fd_;
};

// What goes wrong is told to the log, not to whoever asked.
class ApiServer::ErrorAnswers final : public kj::HttpServerErrorHandler {
 public:
  explicit ErrorAnswers(ServerContext& context) : context_(context) {}

  kj::Promise<void> handleApplicationError(
      kj::Exception exception, kj::Maybe<kj::HttpService::Response&> response) override {
    if (exception.getType() == kj::Exception::Type::DISCONNECTED) return kj::READY_NOW;
    spdlog::warn("a request failed: {}", exception.getDescription().cStr());
    KJ_IF_MAYBE (open, response) {
      return send_error(
          context_, *open,
          {.status = 500, .message = "the request failed", .type = "server_error", .param = {}});
    }
    return kj::READY_NOW;
  }

 private:
  ServerContext& context_;
};

ApiServer::ApiServer(ServerContext& context)
    : context_(context),
      news_observer_(context.event_port, context.board.wake_fd(),
                     kj::UnixEventPort::FdObserver::OBSERVE_READ),
      errors_(kj::heap<ErrorAnswers>(context)),
      tasks_(*this) {
  kj::HttpServerSettings settings;
  settings.headerTimeout = kj_duration(http_request_timeout);
  settings.pipelineTimeout = kj_duration(http_idle_timeout);
  settings.canceledUploadGracePeriod = kj_duration(http_refused_body_timeout);
  settings.canceledUploadGraceBytes = http_refused_body_bytes;
  settings.errorHandler = *errors_;
  server_ = kj::heap<kj::HttpServer>(
      context.timer, *context.headers.table,
      [this](kj::AsyncIoStream& stream) -> kj::Own<kj::HttpService> {
        return kj::heap<Connection>(context_, stream);
      },
      settings);
  tasks_.add(deliver_forever());
}

ApiServer::~ApiServer() = default;

Result<std::uint16_t> ApiServer::listen(kj::AsyncIoContext& io) {
  const config::HttpAddress& address = context_.options.listen;
  const bool v6 = address.host.find(':') != std::string::npos;
  const auto text = kj::str(v6 ? "[" : "", address.host.c_str(), v6 ? "]" : "");
  std::uint16_t port = 0;
  KJ_IF_MAYBE (problem, kj::runCatchingExceptions([&] {
                 auto where =
                     io.provider->getNetwork().parseAddress(text, address.port).wait(io.waitScope);
                 receiver_ = where->listen();
                 port = static_cast<std::uint16_t>(receiver_->getPort());
               })) {
    return error(StatusCode::unavailable, "could not listen at " + std::string(text.cStr()) + ":" +
                                              std::to_string(address.port) + ": " +
                                              problem->getDescription().cStr());
  }
  tasks_.add(accept_next());
  return port;
}

kj::Promise<void> ApiServer::accept_next() {
  return receiver_->accept().then(
      [this](kj::Own<kj::AsyncIoStream>&& stream) -> kj::Promise<void> {
        if (connections_ < static_cast<std::size_t>(context_.options.max_connections)) {
          ++connections_;
          const int yes = 1;  // each token is to be sent at once
          stream->setsockopt(IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
          tasks_.add(
              server_->listenHttp(kj::mv(stream)).attach(kj::defer([this] { --connections_; })));
        }
        return accept_next();
      },
      [this](kj::Exception&& exception) -> kj::Promise<void> {
        spdlog::warn("could not accept a connection: {}", exception.getDescription().cStr());
        return context_.timer.afterDelay(kj_duration(accept_pause)).then([this] {
          return accept_next();
        });
      });
}

kj::Promise<void> ApiServer::deliver_forever() {
  return news_observer_.whenBecomesReadable().then([this] {
    context_.board.deliver();
    return deliver_forever();
  });
}

kj::Promise<void> ApiServer::drain() {
  context_.draining = true;
  if (context_.open_requests == 0) return kj::READY_NOW;
  auto pair = kj::newPromiseAndFulfiller<void>();
  context_.drained = kj::mv(pair.fulfiller);
  return kj::mv(pair.promise);
}

void ApiServer::taskFailed(kj::Exception&& exception) {
  spdlog::debug("a connection ended: {}", exception.getDescription().cStr());
}

}  // namespace terrace::inference
