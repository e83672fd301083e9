// HTTP for people and their tools, on the deciding thread's loop: requests are small and answers
// are made in one turn, so it costs the cache next to nothing. It only reads.
#pragma once

#include <kj/async-io.h>
#include <kj/compat/http.h>
#include <kj/function.h>

#include <memory>

#include "cache_daemon/http/http_answer.h"
#include "config/daemon_config.h"
#include "core/unique_fd.h"

namespace terrace::daemon {

class HttpServer final : private kj::TaskSet::ErrorHandler {
 public:
  // What to answer for a path ("/metrics", without a query).
  using Handler = kj::Function<kj::Promise<HttpAnswer>(kj::StringPtr path)>;

  // Listens, if `options` names an address. A port that is in use is no reason not to serve the
  // cache: it is said in the log and tried again from time to time, such as until an earlier daemon
  // has gone. The loop must outlive this.
  HttpServer(kj::AsyncIoContext& io, const config::HttpOptions& options, Handler handler);
  ~HttpServer();

 private:
  class Service;
  class ErrorAnswers;

  // Whether it listens now.
  bool listen();
  kj::Promise<void> listen_later();
  kj::Promise<void> accept_next();
  void taskFailed(kj::Exception&& exception) override;

  kj::AsyncIoContext& io_;
  config::HttpAddress address_;
  bool told_ = false;  // why it does not listen
  kj::Own<Service> service_;
  kj::Own<ErrorAnswers> errors_;
  kj::Own<kj::HttpServer> server_;
  UniqueFd fd_;
  kj::Own<kj::ConnectionReceiver> receiver_;
  std::size_t connections_ = 0;
  kj::TaskSet tasks_;
};

}  // namespace terrace::daemon
