// One answer to a request: turns its tokens into news for whoever asked.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "inference/scheduler/scheduler.h"
#include "inference/server/answer_text.h"
#include "inference/server/call_board.h"

namespace terrace::inference {

struct ChoiceOptions {
  std::size_t index = 0;
  std::vector<std::string> stop_texts;
  std::string echo;          // what the answer's text begins with
  bool with_tokens = false;  // somebody asked for ids or probabilities
  // Only the whole answer is wanted: there is no news before it ends.
  bool at_once = false;
};

class Choice final : public TokenReceiver {
 public:
  // `board` and `tokenizer` must outlive it.
  Choice(CallBoard& board, std::shared_ptr<Call> call, const tokenizer::Tokenizer& tokenizer,
         ChoiceOptions options);

  void begun(const PrefixHit& hit) override;
  bool take(Token token, const std::optional<TokenLogprobs>& logprobs) override;
  void ended(FinishReason reason) override;
  void failed(const Status& why) override;

 private:
  struct HeldToken {
    AnswerToken token;
    std::size_t begin = 0, end = 0;  // bytes of the text
  };
  // Moves the tokens whose text has been given out into the news.
  void release_tokens(bool all);
  void post();

  CallBoard& board_;
  const std::shared_ptr<Call> call_;
  const tokenizer::Tokenizer& tokenizer_;
  const ChoiceOptions options_;
  AnswerText text_;
  std::deque<HeldToken> held_;
  std::size_t characters_ = 0, counted_bytes_ = 0;  // of the text: so many bytes are so many
  ChoiceNews news_;
};

}  // namespace terrace::inference
