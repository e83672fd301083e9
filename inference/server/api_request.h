// The body of a request of OpenAI's API, read and checked: docs/worker.md lists the fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "core/block_key.h"
#include "inference/model/sampler.h"
#include "inference/server/api_error.h"
#include "inference/tokenizer/chat_template.h"

namespace terrace::inference {

// Named limits of a request.
constexpr std::size_t max_choices = 64;  // of all prompts together
constexpr std::size_t max_stop_texts = 16;
constexpr std::size_t max_stop_bytes = 256;
constexpr std::size_t max_logprobs = 20;
// Of one answer, alternatives counted: they are in memory together, as JSON, until it is sent.
constexpr std::uint64_t max_told_logprobs = std::uint64_t{1} << 18;
constexpr std::size_t max_biased_tokens = 1024;
constexpr std::size_t max_salt_bytes = 1024;

enum class ApiKind { completion, chat };

struct ApiDefaults {
  std::uint32_t max_tokens = 256;
  SamplingOptions sampling;
};

using ApiPrompt = std::variant<std::string, std::vector<Token>>;

struct ApiRequest {
  ApiKind kind = ApiKind::completion;
  std::string model;                         // empty: whatever there is
  std::vector<ApiPrompt> prompts;            // of a completion
  std::vector<tokenizer::Message> messages;  // of a chat
  std::uint32_t choices = 1;                 // of each prompt
  std::uint32_t max_tokens = 0;
  SamplingOptions sampling;
  bool seeded = false;  // the request names a seed
  std::vector<std::string> stop;
  std::optional<std::uint32_t> logprobs;  // how many alternatives
  bool echo = false;
  bool stream = false, include_usage = false;
  bool ignore_stop_tokens = false;
  bool return_token_ids = false;
  bool store = true;
  int priority = 0;
  std::string cache_salt;
};

// Fields that change nothing about the answer, and unknown ones, are ignored; what is asked for and
// is not there is refused.
tl::expected<ApiRequest, ApiError> parse_api_request(ApiKind kind, std::string_view body,
                                                     const ApiDefaults& defaults);

}  // namespace terrace::inference
