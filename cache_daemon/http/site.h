// What lies behind each path of the daemon's HTTP.
#pragma once

#include <kj/async.h>

#include "cache_daemon/context.h"
#include "cache_daemon/http/history.h"
#include "cache_daemon/http/http_answer.h"
#include "cache_daemon/http/prefix_board.h"

namespace terrace::daemon {

class Site {
 public:
  // `context` must outlive this.
  explicit Site(const Context& context)
      : context_(context), texts_(context.config.models), prefixes_(context, texts_) {}

  // Never fails: a path that means nothing is a 404.
  kj::Promise<HttpAnswer> answer(kj::StringPtr path);

  // Notes how it goes, for those who ask later. Call now and then.
  void tick() { history_.look(context_); }

 private:
  HttpAnswer ready() const;

  const Context& context_;
  TokenText texts_;
  PrefixBoard prefixes_;
  History history_;
};

}  // namespace terrace::daemon
