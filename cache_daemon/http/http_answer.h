// What the daemon answers to an HTTP request.
#pragma once

#include <string>
#include <utility>

namespace terrace::daemon {

struct HttpAnswer {
  unsigned status = 200;
  std::string type;  // Content-Type
  std::string body;
};

inline HttpAnswer plain_answer(unsigned status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::move(text)};
}

}  // namespace terrace::daemon
