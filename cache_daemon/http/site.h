// What lies behind each path of the daemon's HTTP.
#pragma once

#include <kj/async.h>

#include "cache_daemon/context.h"
#include "cache_daemon/http/http_answer.h"

namespace terrace::daemon {

class Site {
 public:
  // `context` must outlive this.
  explicit Site(const Context& context) : context_(context) {}

  // Never fails: a path that means nothing is a 404.
  kj::Promise<HttpAnswer> answer(kj::StringPtr path);

 private:
  HttpAnswer ready() const;

  const Context& context_;
};

}  // namespace terrace::daemon
