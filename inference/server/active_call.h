// One request for a completion, from its body to the end of its answer.
#pragma once

#include <kj/async.h>
#include <kj/compat/http.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inference/server/answer_json.h"
#include "inference/server/server_context.h"

namespace terrace::inference {

// Lives on the HTTP thread. Destroyed before its end, its client has hung up: everything that is
// computed for it stops.
class ActiveCall {
 public:
  // `context` and `response` must outlive it.
  ActiveCall(ServerContext& context, ApiKind kind, kj::HttpService::Response& response);
  ~ActiveCall();
  ActiveCall(const ActiveCall&) = delete;
  ActiveCall& operator=(const ActiveCall&) = delete;

  // Done when the answer has been sent. Call it once.
  kj::Promise<void> answer(std::string body);

 private:
  using Steady = std::chrono::steady_clock;

  kj::Promise<void> next_news();
  kj::Promise<void> step();
  void take(ChoiceNews& news);
  kj::Promise<void> stream();
  void begin_stream();
  kj::Promise<void> refuse(const ApiError& error);
  AnswerUsage usage() const;
  double seconds() const;
  void log(int status) const;

  ServerContext& context_;
  kj::HttpService::Response& response_;
  const Steady::time_point begin_ = Steady::now();
  const char* const endpoint_;
  const ApiKind kind_;
  AnswerHead head_;
  std::shared_ptr<Call> call_;
  std::optional<CallAccepted> accepted_;
  std::vector<ChoiceNews> choices_;  // so far, put together
  std::size_t open_choices_ = 0;
  std::size_t generated_tokens_ = 0;
  std::optional<double> first_text_s_;
  std::optional<ApiError> failure_;

  bool has_news_ = false;
  kj::Maybe<kj::Own<kj::PromiseFulfiller<void>>> waiting_;
  kj::Own<kj::AsyncOutputStream> stream_;
  std::string events_;  // to be sent
  int status_ = 0;      // of the answer, once it is complete
};

}  // namespace terrace::inference
