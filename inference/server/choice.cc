#include "inference/server/choice.h"

#include <utility>

namespace terrace::inference {

Choice::Choice(CallBoard& board, std::shared_ptr<Call> call, const tokenizer::Tokenizer& tokenizer,
               ChoiceOptions options)
    : board_(board),
      call_(std::move(call)),
      tokenizer_(tokenizer),
      options_(std::move(options)),
      text_(tokenizer, options_.stop_texts) {
  news_.choice = options_.index;
  news_.text = options_.echo;
}

void Choice::begun(const PrefixHit& hit) {
  news_.cached_tokens = hit.cached_tokens;
  if (!options_.at_once) post();
}

bool Choice::take(Token token, const std::optional<TokenLogprobs>& logprobs) {
  const std::size_t begin = text_.size();
  news_.text += text_.add(token);
  ++news_.generated_tokens;
  if (options_.with_tokens) {
    characters_ += text_.characters_between(counted_bytes_, begin);
    counted_bytes_ = begin;
    AnswerToken told{
        .id = token, .bytes = std::string(tokenizer_.piece(token, true)), .character = characters_};
    if (logprobs) {
      told.logprob = logprobs->logprob;
      for (const auto& [id, logprob] : logprobs->top)
        told.alternatives.emplace_back(tokenizer_.piece(id, true), logprob);
    }
    held_.push_back({std::move(told), begin, text_.size()});
    release_tokens(false);
  }
  if (text_.stopped()) {
    ended(FinishReason::stop);
    return false;
  }
  if (!options_.at_once && (!news_.text.empty() || !news_.tokens.empty())) post();
  return true;
}

void Choice::ended(FinishReason reason) {
  news_.text += text_.finish();
  release_tokens(true);
  news_.finish = text_.stopped() ? FinishReason::stop : reason;
  post();
}

void Choice::failed(const Status& why) {
  news_.failure = why;
  post();
}

void Choice::release_tokens(bool all) {
  while (!held_.empty()) {
    HeldToken& next = held_.front();
    // Of a stop text nothing is told, nor of what comes behind it.
    if (text_.stopped() && next.begin >= text_.size() && next.end > next.begin) break;
    if (!all && next.end > text_.given_out()) break;
    news_.tokens.push_back(std::move(next.token));
    held_.pop_front();
  }
}

void Choice::post() {
  ChoiceNews next;
  next.choice = options_.index;
  board_.post(call_, std::exchange(news_, std::move(next)));
}

}  // namespace terrace::inference
