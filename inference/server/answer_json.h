// Answers of OpenAI's API, as text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inference/server/api_error.h"
#include "inference/server/call_board.h"

namespace terrace::inference {

struct AnswerUsage {
  std::size_t prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
};

// What all the parts of an answer have in common.
struct AnswerHead {
  std::string id;
  std::string model;
  std::int64_t created_s = 0;  // since 1970
};

// The whole answer, from the news of each choice put together.
std::string answer_json(const AnswerHead& head, const ApiRequest& request,
                        const std::vector<ChoiceNews>& choices, const AnswerUsage& usage);

// Events of a stream ("data: ...\n\n"): the beginning of a choice (nothing for a completion), more
// of it, the usage at the end, what went wrong, and the end.
std::string begin_event(const AnswerHead& head, const ApiRequest& request, std::size_t choice);
std::string news_event(const AnswerHead& head, const ApiRequest& request, const ChoiceNews& news);
std::string usage_event(const AnswerHead& head, const ApiRequest& request,
                        const AnswerUsage& usage);
std::string error_event(const ApiError& error);
constexpr std::string_view done_event = "data: [DONE]\n\n";

std::string error_json(const ApiError& error);
std::string models_json(const std::string& model, std::int64_t created_s, std::size_t context);
std::string model_json(const std::string& model, std::int64_t created_s, std::size_t context);

// Why a sequence came to nothing, for whoever asked.
ApiError api_error_of(const Status& status);

}  // namespace terrace::inference
