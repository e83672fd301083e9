#include "inference/server/send.h"

#include <utility>

#include "inference/server/answer_json.h"

namespace terrace::inference {

kj::StringPtr http_reason(int status) {
  switch (status) {
    case 200:
      return "OK"_kj;
    case 400:
      return "Bad Request"_kj;
    case 401:
      return "Unauthorized"_kj;
    case 404:
      return "Not Found"_kj;
    case 405:
      return "Method Not Allowed"_kj;
    case 413:
      return "Payload Too Large"_kj;
    case 415:
      return "Unsupported Media Type"_kj;
    case 429:
      return "Too Many Requests"_kj;
    case 503:
      return "Service Unavailable"_kj;
    default:
      return "Internal Server Error"_kj;
  }
}

kj::Promise<void> write_in_time(ServerContext& context, kj::AsyncOutputStream& stream,
                                std::string text) {
  auto held = kj::heap<std::string>(std::move(text));
  auto written = stream.write(held->data(), held->size()).attach(kj::mv(held));
  return context.timer.timeoutAfter(
      std::chrono::nanoseconds(http_write_timeout).count() * kj::NANOSECONDS, kj::mv(written));
}

kj::Promise<void> send_text(ServerContext& context, kj::HttpService::Response& response, int status,
                            const char* content_type, std::string body,
                            const std::string& request_id) {
  kj::HttpHeaders headers(*context.headers.table);
  headers.set(kj::HttpHeaderId::CONTENT_TYPE, content_type);
  headers.set(context.headers.cache_control, "no-store"_kj);
  if (!request_id.empty()) headers.set(context.headers.request_id, request_id.c_str());
  if (status == 405) headers.set(context.headers.allow, "GET, HEAD, POST"_kj);
  if (status == 429 || status == 503)
    headers.set(context.headers.retry_after, kj::str(retry_after_s));
  auto stream =
      response.send(static_cast<unsigned>(status), http_reason(status), headers, body.size());
  auto written = write_in_time(context, *stream, std::move(body));
  return written.attach(kj::mv(stream));
}

kj::Promise<void> send_error(ServerContext& context, kj::HttpService::Response& response,
                             const ApiError& error, const std::string& request_id) {
  return send_text(context, response, error.status, json_content_type, error_json(error),
                   request_id);
}

}  // namespace terrace::inference
