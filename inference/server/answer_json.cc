#include "inference/server/answer_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "inference/server/answer_text.h"

namespace terrace::inference {

namespace {

using nlohmann::ordered_json;

std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string event(const ordered_json& value) { return "data: " + dump(value) + "\n\n"; }

std::string readable(std::string bytes) { return take_utf8(bytes, true); }

ordered_json nullable(const std::string& text) {
  return text.empty() ? ordered_json() : ordered_json(text);
}

// JSON has no infinity; so unlikely is what was never likely.
double finite(float logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

ordered_json byte_list(const std::string& bytes) {
  ordered_json list = ordered_json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return list;
}

ordered_json chat_logprobs(const std::vector<AnswerToken>& tokens) {
  ordered_json content = ordered_json::array();
  for (const AnswerToken& token : tokens) {
    ordered_json alternatives = ordered_json::array();
    for (const auto& [bytes, logprob] : token.alternatives)
      alternatives.push_back(
          {{"token", readable(bytes)}, {"logprob", finite(logprob)}, {"bytes", byte_list(bytes)}});
    content.push_back({{"token", readable(token.bytes)},
                       {"logprob", finite(token.logprob)},
                       {"bytes", byte_list(token.bytes)},
                       {"top_logprobs", std::move(alternatives)}});
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

ordered_json completion_logprobs(const std::vector<AnswerToken>& tokens) {
  ordered_json texts = ordered_json::array(), logprobs = texts, tops = texts, offsets = texts;
  for (const AnswerToken& token : tokens) {
    texts.push_back(readable(token.bytes));
    logprobs.push_back(finite(token.logprob));
    offsets.push_back(token.character);
    ordered_json top = ordered_json::object();
    for (const auto& [bytes, logprob] : token.alternatives)
      top.emplace(readable(bytes), finite(logprob));
    tops.push_back(std::move(top));
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

ordered_json logprobs_of(const ApiRequest& request, const ChoiceNews& news) {
  if (!request.logprobs) return nullptr;
  return request.kind == ApiKind::chat ? chat_logprobs(news.tokens)
                                       : completion_logprobs(news.tokens);
}

void add_token_ids(const ApiRequest& request, const ChoiceNews& news, ordered_json& choice) {
  if (!request.return_token_ids) return;
  ordered_json ids = ordered_json::array();
  for (const AnswerToken& token : news.tokens) ids.push_back(token.id);
  choice["token_ids"] = std::move(ids);
}

ordered_json finish_of(const ChoiceNews& news) {
  return news.finish ? ordered_json(to_string(*news.finish)) : ordered_json();
}

ordered_json usage_of(const AnswerUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.generated_tokens},
          {"total_tokens", usage.prompt_tokens + usage.generated_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

ordered_json envelope(const AnswerHead& head, const ApiRequest& request, bool chunk) {
  const char* const object = request.kind == ApiKind::completion ? "text_completion"
                             : chunk                             ? "chat.completion.chunk"
                                                                 : "chat.completion";
  return {{"id", head.id},
          {"object", object},
          {"created", head.created_s},
          {"model", head.model},
          {"choices", ordered_json::array()}};
}

std::string chunk_event(const AnswerHead& head, const ApiRequest& request, ordered_json choice) {
  ordered_json chunk = envelope(head, request, true);
  chunk["choices"].push_back(std::move(choice));
  if (request.include_usage) chunk["usage"] = nullptr;
  return event(chunk);
}

ordered_json model_object(const std::string& model, std::int64_t created_s, std::size_t context) {
  return {{"id", model},
          {"object", "model"},
          {"created", created_s},
          {"owned_by", "terrace"},
          {"max_model_len", context}};
}

ordered_json error_object(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", nullable(error.param)},
            {"code", nullable(error.code)}}}};
}

}  // namespace

std::string answer_json(const AnswerHead& head, const ApiRequest& request,
                        const std::vector<ChoiceNews>& choices, const AnswerUsage& usage) {
  ordered_json answer = envelope(head, request, false);
  for (const ChoiceNews& news : choices) {
    ordered_json choice = {{"index", news.choice}};
    if (request.kind == ApiKind::chat) {
      choice["message"] = {{"role", "assistant"}, {"content", news.text}, {"refusal", nullptr}};
    } else {
      choice["text"] = news.text;
    }
    choice["logprobs"] = logprobs_of(request, news);
    choice["finish_reason"] = finish_of(news);
    add_token_ids(request, news, choice);
    answer["choices"].push_back(std::move(choice));
  }
  answer["usage"] = usage_of(usage);
  return dump(answer);
}

std::string begin_event(const AnswerHead& head, const ApiRequest& request, std::size_t choice) {
  if (request.kind == ApiKind::completion) return {};
  return chunk_event(head, request,
                     {{"index", choice},
                      {"delta", {{"role", "assistant"}, {"content", ""}}},
                      {"logprobs", nullptr},
                      {"finish_reason", nullptr}});
}

std::string news_event(const AnswerHead& head, const ApiRequest& request, const ChoiceNews& news) {
  ordered_json choice = {{"index", news.choice}};
  if (request.kind == ApiKind::chat) {
    choice["delta"] = ordered_json::object();
    if (!news.text.empty() || !news.tokens.empty()) choice["delta"]["content"] = news.text;
  } else {
    choice["text"] = news.text;
  }
  choice["logprobs"] = news.tokens.empty() ? ordered_json() : logprobs_of(request, news);
  choice["finish_reason"] = finish_of(news);
  add_token_ids(request, news, choice);
  return chunk_event(head, request, std::move(choice));
}

std::string usage_event(const AnswerHead& head, const ApiRequest& request,
                        const AnswerUsage& usage) {
  ordered_json chunk = envelope(head, request, true);
  chunk["usage"] = usage_of(usage);
  return event(chunk);
}

std::string error_event(const ApiError& error) { return event(error_object(error)); }
std::string error_json(const ApiError& error) { return dump(error_object(error)); }

std::string model_json(const std::string& model, std::int64_t created_s, std::size_t context) {
  return dump(model_object(model, created_s, context));
}

std::string models_json(const std::string& model, std::int64_t created_s, std::size_t context) {
  return dump({{"object", "list"},
               {"data", ordered_json::array({model_object(model, created_s, context)})}});
}

ApiError api_error_of(const Status& status) {
  switch (status.code()) {
    case StatusCode::invalid_argument:
      return {.message = status.message(), .param = {}};
    case StatusCode::resource_exhausted:
      return {.status = 429,
              .message = "the server is busy: " + status.message(),
              .type = "rate_limit_error",
              .param = {},
              .code = "rate_limit_exceeded"};
    default:
      return {.status = 500, .message = status.message(), .type = "server_error", .param = {}};
  }
}

}  // namespace terrace::inference
