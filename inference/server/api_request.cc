#include "inference/server/api_request.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace terrace::inference {

namespace {

using nlohmann::json;

// Reads the members of an object; the first thing that is wrong stays.
class Fields {
 public:
  explicit Fields(const json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}

  // Null counts as not being there.
  const json* find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  void refuse(const char* name, const std::string& message) {
    if (!error_) error_ = invalid_field(prefix_ + name, "'" + prefix_ + name + "' " + message);
  }
  void flag(const char* name, bool& target) {
    const json* value = find(name);
    if (!value) return;
    if (!value->is_boolean()) return refuse(name, "must be true or false");
    target = value->get<bool>();
  }
  void text(const char* name, std::string& target, std::size_t most_bytes) {
    const json* value = find(name);
    if (!value) return;
    if (!value->is_string()) return refuse(name, "must be a string");
    if (value->get_ref<const std::string&>().size() > most_bytes)
      return refuse(name, "is longer than " + std::to_string(most_bytes) + " bytes");
    target = value->get<std::string>();
  }
  void number(const char* name, double& target, double least, double most) {
    const json* value = find(name);
    if (!value) return;
    if (!value->is_number()) return refuse(name, "must be a number");
    const double number = value->get<double>();
    if (!(number >= least && number <= most))
      return refuse(name, "must be from " + short_text(least) + " to " + short_text(most));
    target = number;
  }
  template <typename Integer>
  void integer(const char* name, Integer& target, std::int64_t least, std::int64_t most) {
    const json* value = find(name);
    if (!value) return;
    if (!value->is_number_integer()) return refuse(name, "must be an integer");
    const bool huge = value->is_number_unsigned() &&
                      value->get<std::uint64_t>() >
                          static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (huge || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most)
      return refuse(name, "must be from " + std::to_string(least) + " to " + std::to_string(most));
    target = static_cast<Integer>(value->get<std::int64_t>());
  }
  // What is there and asks for something.
  void not_supported(const char* name) {
    const json* value = find(name);
    if (value && !value->empty() && *value != json(false)) refuse(name, "is not supported");
  }

  std::optional<ApiError>& error() { return error_; }

 private:
  static std::string short_text(double number) { return json(number).dump(); }

  const json& object_;
  std::string prefix_;
  std::optional<ApiError> error_;
};

bool is_token_list(const json& value) {
  if (!value.is_array() || value.empty()) return false;
  for (const json& each : value)
    if (!each.is_number_integer()) return false;
  return true;
}

std::optional<std::vector<Token>> tokens_of(const json& list) {
  std::vector<Token> tokens;
  for (const json& each : list) {
    const auto id = each.get<std::int64_t>();
    if (id < 0 || id > std::numeric_limits<Token>::max()) return std::nullopt;
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

void read_prompts(Fields& fields, ApiRequest& request) {
  const json* prompt = fields.find("prompt");
  constexpr const char* expected =
      "must be a string, a list of strings, a list of token ids or a list of such lists";
  if (!prompt) return fields.refuse("prompt", "is missing");
  const auto add = [&](const json& one) {
    if (one.is_string()) {
      request.prompts.emplace_back(one.get<std::string>());
      return true;
    }
    if (!is_token_list(one)) return false;
    auto tokens = tokens_of(one);
    if (tokens) request.prompts.emplace_back(std::move(*tokens));
    return tokens.has_value();
  };
  if (prompt->is_string() || is_token_list(*prompt)) {
    if (!add(*prompt)) fields.refuse("prompt", expected);
    return;
  }
  if (!prompt->is_array() || prompt->empty()) return fields.refuse("prompt", expected);
  if (prompt->size() > max_choices)
    return fields.refuse("prompt", "has more than " + std::to_string(max_choices) + " prompts");
  for (const json& one : *prompt)
    if (!add(one)) return fields.refuse("prompt", expected);
}

// A text, or a list of parts that are texts.
std::optional<std::string> content_of(const json& content) {
  if (content.is_null()) return std::string();
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const json& part : content) {
    if (!part.is_object() || !part.contains("type") || part["type"] != "text" ||
        !part.contains("text") || !part["text"].is_string())
      return std::nullopt;
    text += part["text"].get_ref<const std::string&>();
  }
  return text;
}

void read_messages(Fields& fields, ApiRequest& request) {
  const json* messages = fields.find("messages");
  if (!messages || !messages->is_array() || messages->empty())
    return fields.refuse("messages", "must be a list of messages");
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const json& message = (*messages)[i];
    const std::string name = "messages[" + std::to_string(i) + "]";
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      return fields.refuse(name.c_str(), "must be an object with a role");
    std::string role = message["role"];
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant")
      return fields.refuse(name.c_str(),
                           "has a role other than system, developer, user, assistant");
    if (message.contains("tool_calls") && !message["tool_calls"].empty())
      return fields.refuse(name.c_str(), "has tool calls, which are not supported");
    // Nothing that a client sends is copied as JSON: a copy of what is nested a million times
    // over needs more stack than there is.
    static const json nothing;
    const json& given = message.contains("content") ? message["content"] : nothing;
    auto content = content_of(given);
    if (!content) return fields.refuse(name.c_str(), "has a content that is not text");
    request.messages.push_back({std::move(role), std::move(*content)});
  }
}

void read_stop(Fields& fields, ApiRequest& request) {
  const json* stop = fields.find("stop");
  if (!stop) return;
  const auto add = [&](const json& text) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty() ||
        text.get_ref<const std::string&>().size() > max_stop_bytes)
      return fields.refuse("stop", "must be a text, or a list of texts, of 1 to " +
                                       std::to_string(max_stop_bytes) + " bytes");
    request.stop.push_back(text.get<std::string>());
  };
  if (!stop->is_array()) return add(*stop);
  if (stop->size() > max_stop_texts)
    return fields.refuse("stop", "has more than " + std::to_string(max_stop_texts) + " texts");
  for (const json& text : *stop) add(text);
}

void read_logit_bias(Fields& fields, ApiRequest& request) {
  const json* bias = fields.find("logit_bias");
  if (!bias) return;
  constexpr const char* expected = "must be an object of numbers from -100 to 100 by token id";
  if (!bias->is_object()) return fields.refuse("logit_bias", expected);
  if (bias->size() > max_biased_tokens)
    return fields.refuse("logit_bias",
                         "has more than " + std::to_string(max_biased_tokens) + " tokens");
  for (const auto& [key, value] : bias->items()) {
    const bool digits =
        !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || !value.is_number() || std::abs(value.get<double>()) > 100)
      return fields.refuse("logit_bias", expected);
    request.sampling.logit_bias.emplace_back(std::stoi(key), value.get<float>());
  }
}

void read_sampling(Fields& fields, ApiRequest& request) {
  SamplingOptions& sampling = request.sampling;
  fields.number("temperature", sampling.temperature, 0, 100);
  fields.number("top_p", sampling.top_p, 0, 1);
  int top_k = static_cast<int>(sampling.top_k);
  fields.integer("top_k", top_k, -1, 1 << 20);
  sampling.top_k = top_k < 0 ? 0 : static_cast<std::uint32_t>(top_k);
  if (sampling.top_p == 0) sampling.top_k = 1, sampling.top_p = 1;  // the most likely one
  fields.number("min_p", sampling.min_p, 0, 1);
  fields.number("presence_penalty", sampling.presence_penalty, -2, 2);
  fields.number("frequency_penalty", sampling.frequency_penalty, -2, 2);
  fields.number("repetition_penalty", sampling.repetition_penalty, 0.01, 100);
  request.seeded = fields.find("seed") != nullptr;
  fields.integer("seed", sampling.seed, std::numeric_limits<std::int64_t>::min(),
                 std::numeric_limits<std::int64_t>::max());
  read_logit_bias(fields, request);
}

void read_logprobs(Fields& fields, ApiRequest& request) {
  std::uint32_t count = 0;
  if (request.kind == ApiKind::completion) {
    if (!fields.find("logprobs")) return;
    fields.integer("logprobs", count, 0, max_logprobs);
    request.logprobs = count;
    return;
  }
  bool wanted = false;
  fields.flag("logprobs", wanted);
  fields.integer("top_logprobs", count, 0, max_logprobs);
  if (wanted) request.logprobs = count;
  if (!wanted && fields.find("top_logprobs"))
    fields.refuse("top_logprobs", "needs 'logprobs' to be true");
}

void read_stream(Fields& fields, ApiRequest& request) {
  fields.flag("stream", request.stream);
  const json* options = fields.find("stream_options");
  if (!options) return;
  if (!options->is_object()) return fields.refuse("stream_options", "must be an object");
  if (!request.stream) return fields.refuse("stream_options", "needs 'stream' to be true");
  Fields inner(*options, "stream_options.");
  inner.flag("include_usage", request.include_usage);
  if (inner.error()) fields.error() = inner.error();
}

void read_format(Fields& fields) {
  const json* format = fields.find("response_format");
  if (format && (!format->is_object() || !format->contains("type") || (*format)["type"] != "text"))
    fields.refuse("response_format", "can only be of type text");
}

}  // namespace

tl::expected<ApiRequest, ApiError> parse_api_request(ApiKind kind, std::string_view body,
                                                     const ApiDefaults& defaults) {
  const json object = json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded())
    return tl::unexpected(ApiError{.message = "the body is not valid JSON", .param = {}});
  if (!object.is_object())
    return tl::unexpected(ApiError{.message = "the body must be a JSON object", .param = {}});

  Fields fields(object);
  ApiRequest request;
  request.kind = kind;
  request.sampling = defaults.sampling;
  request.max_tokens = defaults.max_tokens;
  fields.text("model", request.model, 256);
  if (kind == ApiKind::chat) {
    read_messages(fields, request);
    for (const char* name : {"tools", "functions", "audio", "web_search_options"})
      fields.not_supported(name);
    if (const json* modalities = fields.find("modalities");
        modalities && *modalities != json::array({"text"}))
      fields.refuse("modalities", "can only be text");
  } else {
    read_prompts(fields, request);
    fields.flag("echo", request.echo);
    fields.not_supported("suffix");
  }
  constexpr std::int64_t most_tokens = 1 << 20;
  fields.integer("max_tokens", request.max_tokens, 1, most_tokens);
  fields.integer("max_completion_tokens", request.max_tokens, 1, most_tokens);
  fields.integer("n", request.choices, 1, max_choices);
  if (std::uint32_t best_of = request.choices; fields.find("best_of")) {
    fields.integer("best_of", best_of, 1, max_choices);
    if (best_of != request.choices) fields.refuse("best_of", "must be equal to 'n'");
  }
  if (request.choices * request.prompts.size() > max_choices)
    fields.refuse("n", "times the number of prompts is more than " + std::to_string(max_choices));
  read_sampling(fields, request);
  read_stop(fields, request);
  read_logprobs(fields, request);
  if (request.logprobs && request.choices * std::uint64_t{request.max_tokens} *
                                  (1 + *request.logprobs) *
                                  std::max<std::uint64_t>(1, request.prompts.size()) >
                              max_told_logprobs)
    fields.refuse("logprobs", "of so many tokens, choices and alternatives are more than the " +
                                  std::to_string(max_told_logprobs) + " that one answer tells");
  if (request.echo && request.logprobs) fields.refuse("echo", "is not supported with 'logprobs'");
  read_stream(fields, request);
  read_format(fields);
  fields.flag("ignore_eos", request.ignore_stop_tokens);
  fields.flag("return_token_ids", request.return_token_ids);
  fields.flag("store", request.store);
  fields.integer("priority", request.priority, -1'000'000, 1'000'000);
  fields.text("cache_salt", request.cache_salt, max_salt_bytes);
  if (fields.error()) return tl::unexpected(*fields.error());
  return request;
}

}  // namespace terrace::inference
