// What the daemon answers to an HTTP request.
#pragma once

#include <string>

namespace terrace::daemon {

struct HttpAnswer {
  unsigned status = 200;
  std::string type;  // Content-Type
  std::string body;
};

}  // namespace terrace::daemon
