// Answers that are there as a whole.
#pragma once

#include <kj/compat/http.h>

#include <string>

#include "inference/server/api_error.h"
#include "inference/server/server_context.h"

namespace terrace::inference {

constexpr const char* json_content_type = "application/json";

kj::StringPtr http_reason(int status);

kj::Promise<void> send_text(ServerContext& context, kj::HttpService::Response& response, int status,
                            const char* content_type, std::string body,
                            const std::string& request_id = "");
// In OpenAI's form, with a Retry-After where trying again may help.
kj::Promise<void> send_error(ServerContext& context, kj::HttpService::Response& response,
                             const ApiError& error, const std::string& request_id = "");

// At most http_write_timeout.
kj::Promise<void> write_in_time(ServerContext& context, kj::AsyncOutputStream& stream,
                                std::string text);

}  // namespace terrace::inference
