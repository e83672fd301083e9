// The worker's HTTP: OpenAI's API and figures. On one thread, beside those that compute.
#pragma once

#include <kj/async-io.h>
#include <kj/compat/http.h>

#include <cstdint>

#include "core/status.h"
#include "inference/server/server_context.h"

namespace terrace::inference {

class ApiServer final : private kj::TaskSet::ErrorHandler {
 public:
  // `context` must outlive it.
  explicit ApiServer(ServerContext& context);
  ~ApiServer();

  // Listens at the address of the options. Returns the port; unavailable if it cannot be had.
  Result<std::uint16_t> listen(kj::AsyncIoContext& io);

  // No new completions from here on; done when those under way are.
  kj::Promise<void> drain();

 private:
  class Connection;
  class ErrorAnswers;

  kj::Promise<void> accept_next();
  kj::Promise<void> deliver_forever();
  void taskFailed(kj::Exception&& exception) override;

  ServerContext& context_;
  kj::UnixEventPort::FdObserver news_observer_;
  kj::Own<ErrorAnswers> errors_;
  kj::Own<kj::HttpServer> server_;
  kj::Own<kj::ConnectionReceiver> receiver_;
  std::size_t connections_ = 0;
  kj::TaskSet tasks_;
};

}  // namespace terrace::inference
