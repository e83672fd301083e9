// What becomes of a call, on its way from the threads that compute to the one that speaks HTTP.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/status.h"
#include "core/unique_fd.h"
#include "inference/scheduler/scheduler.h"
#include "inference/server/api_error.h"
#include "inference/server/api_request.h"

namespace terrace::inference {

// The request was understood and is queued.
struct CallAccepted {
  ApiRequest request;
  std::vector<SequenceId> sequences;  // a choice each
  std::size_t prompt_tokens = 0;      // of all prompts
};

struct AnswerToken {
  Token id = 0;
  std::string bytes;
  std::size_t character = 0;  // of the answer's text where it begins
  // Where somebody asked: how likely it was, and the most likely ones.
  float logprob = 0;
  std::vector<std::pair<std::string, float>> alternatives;  // by their bytes
};

// More of one choice.
struct ChoiceNews {
  std::size_t choice = 0;
  std::string text;
  std::vector<AnswerToken> tokens;  // of the text, where somebody asked for them
  std::size_t generated_tokens = 0;
  std::optional<std::size_t> cached_tokens;  // once, at its beginning
  std::optional<FinishReason> finish;
  std::optional<Status> failure;

  bool ends() const { return finish || failure; }
};

using CallNews = std::variant<CallAccepted, ApiError, ChoiceNews>;

// One request. `on_news` belongs to the HTTP thread, the rest to the board.
class Call {
 public:
  std::string id;
  std::function<void()> on_news;  // may be empty

 private:
  friend class CallBoard;
  std::vector<CallNews> news_;
  std::vector<SequenceId> sequences_;
  bool accepted_ = false, listed_ = false, abandoned_ = false;
};

class CallBoard {
 public:
  CallBoard();

  // For any thread. News of choices waits for the acceptance, which comes first whenever it was
  // posted. False if nobody waits for the call any more: of an acceptance, its sequences are then
  // to be cancelled.
  bool post(const std::shared_ptr<Call>& call, CallNews news);

  // For the HTTP thread: readable when there is news.
  int wake_fd() const { return wake_fd_.get(); }
  // Calls on_news of every call with news.
  void deliver();
  std::vector<CallNews> take(Call& call);
  // Nobody waits for it any more: the sequences that it still has.
  std::vector<SequenceId> abandon(Call& call);

 private:
  UniqueFd wake_fd_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Call>> ready_;
};

}  // namespace terrace::inference
