// What is wrong with a request, as OpenAI's API says it.
#pragma once

#include <string>

namespace terrace::inference {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // the field; empty: none
  std::string code;   // for programs; empty: none
};

inline ApiError invalid_field(std::string param, std::string message) {
  return {.message = std::move(message), .param = std::move(param)};
}

}  // namespace terrace::inference
