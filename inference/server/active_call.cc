#include "inference/server/active_call.h"

#include <spdlog/spdlog.h>

#include <random>
#include <utility>

#include "core/clock.h"
#include "inference/server/send.h"

namespace terrace::inference {

namespace {

// Unlike those of another worker, too.
std::string new_id(const char* prefix, std::uint64_t number) {
  static const std::uint64_t process = std::uint64_t{std::random_device{}()} << 32;
  return fmt::format("{}{:016x}{:08x}", prefix, process | std::random_device{}(), number);
}

ApiError failure_of(const Status& status) {
  ApiError error = api_error_of(status);
  // The queue had room; what came after it is not the client's doing.
  if (error.status == 429) error.status = 503;
  return error;
}

}  // namespace

ActiveCall::ActiveCall(ServerContext& context, ApiKind kind, kj::HttpService::Response& response)
    : context_(context),
      response_(response),
      endpoint_(kind == ApiKind::chat ? "chat_completions" : "completions"),
      kind_(kind),
      call_(std::make_shared<Call>()) {
  head_ = {new_id(kind == ApiKind::chat ? "chatcmpl-" : "cmpl-", ++context.last_request),
           context.model, SystemClock().unix_ms() / 1000};
  call_->id = head_.id;
  call_->on_news = [this] {
    has_news_ = true;
    KJ_IF_MAYBE (fulfiller, waiting_) {
      (*fulfiller)->fulfill();
      waiting_ = nullptr;
    }
  };
  ++context_.open_requests;
}

ActiveCall::~ActiveCall() {
  call_->on_news = nullptr;
  if (status_ == 0) context_.preparer.forget(*call_);
  auto sequences = context_.board.abandon(*call_);
  const int status = status_ == 0 ? hung_up_status : status_;
  if (status_ == 0) context_.scheduler.cancel(std::move(sequences));
  context_.metrics.answered(endpoint_, status, seconds());
  log(status);
  if (--context_.open_requests > 0) return;
  KJ_IF_MAYBE (drained, context_.drained) {
    (*drained)->fulfill();
  }
}

double ActiveCall::seconds() const {
  return std::chrono::duration<double>(Steady::now() - begin_).count();
}

void ActiveCall::log(int status) const {
  const AnswerUsage used = usage();
  const auto slow = static_cast<double>(context_.options.slow_request_ms);
  const bool is_slow = slow > 0 && seconds() * 1000 >= slow;
  spdlog::log(
      is_slow ? spdlog::level::warn : spdlog::level::debug,
      "{}request {} {}: {} in {:.0f} ms, first text after {:.0f} ms, prompt {} tokens, {} of "
      "them cached, answer {} tokens",
      is_slow ? "slow " : "", head_.id, endpoint_, status, seconds() * 1000,
      first_text_s_.value_or(0) * 1000, used.prompt_tokens, used.cached_tokens,
      used.generated_tokens);
}

kj::Promise<void> ActiveCall::answer(std::string body) {
  context_.preparer.prepare(call_, kind_, std::move(body));
  return step();
}

kj::Promise<void> ActiveCall::next_news() {
  if (std::exchange(has_news_, false)) return kj::READY_NOW;
  auto pair = kj::newPromiseAndFulfiller<void>();
  waiting_ = kj::mv(pair.fulfiller);
  return pair.promise.then([this] { has_news_ = false; });
}

kj::Promise<void> ActiveCall::step() {
  return next_news().then([this]() -> kj::Promise<void> {
    for (CallNews& news : context_.board.take(*call_)) {
      if (auto* error = std::get_if<ApiError>(&news)) return refuse(*error);
      if (auto* accepted = std::get_if<CallAccepted>(&news)) {
        accepted_ = std::move(*accepted);
        open_choices_ = accepted_->sequences.size();
        choices_.resize(open_choices_);
        for (std::size_t i = 0; i < open_choices_; ++i) choices_[i].choice = i;
        if (accepted_->request.stream) begin_stream();
      } else {
        take(std::get<ChoiceNews>(news));
      }
    }
    if (!accepted_) return step();
    if (accepted_->request.stream) return stream();
    if (failure_) return refuse(*failure_);
    if (open_choices_ > 0) return step();
    return send_text(context_, response_, 200, json_content_type,
                     answer_json(head_, accepted_->request, choices_, usage()), head_.id)
        .then([this] { status_ = 200; });
  });
}

void ActiveCall::take(ChoiceNews& news) {
  const ApiRequest& request = accepted_->request;
  ChoiceNews& whole = choices_[news.choice];
  generated_tokens_ += news.generated_tokens;
  if (news.cached_tokens) whole.cached_tokens = news.cached_tokens;
  if (news.ends()) --open_choices_;
  if (news.failure) failure_ = failure_of(*news.failure);
  if (!request.stream) {
    whole.text += news.text;
    std::move(news.tokens.begin(), news.tokens.end(), std::back_inserter(whole.tokens));
    whole.finish = news.finish;
    return;
  }
  const bool has_text = !news.text.empty() || !news.tokens.empty();
  if (has_text && !std::exchange(first_text_s_, first_text_s_ ? first_text_s_ : seconds()))
    context_.metrics.first_text(*first_text_s_);
  if (has_text || news.finish) events_ += news_event(head_, request, news);
}

void ActiveCall::begin_stream() {
  kj::HttpHeaders headers(*context_.headers.table);
  headers.set(kj::HttpHeaderId::CONTENT_TYPE, "text/event-stream; charset=utf-8"_kj);
  headers.set(context_.headers.cache_control, "no-store"_kj);
  headers.set(context_.headers.request_id, head_.id.c_str());
  stream_ = response_.send(200, http_reason(200), headers);
  for (std::size_t i = 0; i < choices_.size(); ++i)
    events_ += begin_event(head_, accepted_->request, i);
}

kj::Promise<void> ActiveCall::stream() {
  const bool ends = failure_ || open_choices_ == 0;
  if (failure_) events_ += error_event(*failure_);
  if (ends && !failure_ && accepted_->request.include_usage)
    events_ += usage_event(head_, accepted_->request, usage());
  if (ends) events_ += done_event;
  if (events_.empty()) return step();
  auto written = write_in_time(context_, *stream_, std::exchange(events_, {}));
  if (!ends) return written.then([this] { return step(); });
  return written.then([this] {
    stream_ = nullptr;
    status_ = failure_ ? failure_->status : 200;
    if (failure_) context_.scheduler.cancel(context_.board.abandon(*call_));
  });
}

kj::Promise<void> ActiveCall::refuse(const ApiError& error) {
  return send_error(context_, response_, error, head_.id).then([this, status = error.status] {
    status_ = status;
    context_.scheduler.cancel(context_.board.abandon(*call_));
  });
}

AnswerUsage ActiveCall::usage() const {
  AnswerUsage used;
  used.generated_tokens = generated_tokens_;
  if (!accepted_) return used;
  used.prompt_tokens = accepted_->prompt_tokens;
  // Of each prompt the first choice: the others hit what it computed.
  for (std::size_t i = 0; i < choices_.size(); i += accepted_->request.choices)
    used.cached_tokens += choices_[i].cached_tokens.value_or(0);
  return used;
}

}  // namespace terrace::inference
