#include "inference/server/call_board.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <utility>

namespace terrace::inference {

CallBoard::CallBoard() : wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

bool CallBoard::post(const std::shared_ptr<Call>& call, CallNews news) {
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    if (call->abandoned_) return false;
    const bool of_choice = std::holds_alternative<ChoiceNews>(news);
    if (const auto* accepted = std::get_if<CallAccepted>(&news)) {
      call->sequences_ = accepted->sequences;
      call->accepted_ = true;
    }
    call->news_.insert(of_choice ? call->news_.end() : call->news_.begin(), std::move(news));
    if (of_choice && !call->accepted_) return true;
    if (!std::exchange(call->listed_, true)) {
      wake = ready_.empty();
      ready_.push_back(call);
    }
  }
  if (wake) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
  }
  return true;
}

void CallBoard::deliver() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read = ::read(wake_fd_.get(), &count, sizeof count);
  std::vector<std::shared_ptr<Call>> ready;
  {
    const std::lock_guard lock(mutex_);
    ready.swap(ready_);
    for (const auto& call : ready) call->listed_ = false;
  }
  for (const auto& call : ready)
    if (call->on_news) call->on_news();
}

std::vector<CallNews> CallBoard::take(Call& call) {
  const std::lock_guard lock(mutex_);
  return std::exchange(call.news_, {});
}

std::vector<SequenceId> CallBoard::abandon(Call& call) {
  const std::lock_guard lock(mutex_);
  call.abandoned_ = true;
  call.news_.clear();
  return std::exchange(call.sequences_, {});
}

}  // namespace terrace::inference
