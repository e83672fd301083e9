#include "client/engine.h"

#include <kj/debug.h>

#include <algorithm>

#include "client/limits.h"
#include "protocol/kj_time.h"

namespace terrace::client {

using protocol::kj_duration;

Engine::Engine(kj::AsyncIoContext& io, ClientOptions options, TaskQueue& queue,
               ConnectionState& state)
    : io_(io),
      timer_(io.provider->getTimer()),
      options_(std::move(options)),
      queue_(queue),
      state_(state),
      queue_observer_(io.unixEventPort, queue.wake_fd(),
                      kj::UnixEventPort::FdObserver::OBSERVE_READ),
      random_(std::random_device()()),
      pause_(min_reconnect_pause),
      tasks_(*this) {}

Engine::~Engine() {
  for (auto& [number, space] : spaces_) space->disconnect();
  for (auto& space : closing_spaces_) space->disconnect();
}

void Engine::run() {
  tasks_.add(take_tasks_forever());
  tasks_.add(look_after_forever());
  connect();
  stop_.promise.wait(io_.waitScope);
}

void Engine::stop() { stop_.fulfiller->fulfill(); }

kj::Promise<void> Engine::take_tasks_forever() {
  for (Task& task : queue_.take()) {
    // One task that fails must not take the thread with it: its call answers "unavailable".
    KJ_IF_MAYBE (exception, kj::runCatchingExceptions([&] { task(*this); })) {
      taskFailed(kj::mv(*exception));
    }
  }
  // A post from here on is a new edge, which the observer sees when the loop polls next.
  return queue_observer_.whenBecomesReadable().then([this] { return take_tasks_forever(); });
}

kj::Promise<void> Engine::look_after_forever() {
  return timer_.afterDelay(kj_duration(old_session_interval)).then([this] {
    std::erase_if(closing_spaces_, [](const auto& space) { return space->idle(); });
    disown_old_sessions();
    return look_after_forever();
  });
}

void Engine::connect() {
  std::shared_ptr<const SessionArena> earlier;
  if (!old_sessions_.empty()) earlier = old_sessions_.back().arena.lock();
  tasks_.add(kj::evalNow([&] { return Link::open(io_, options_, earlier); })
                 .then([this](kj::Own<Link> link) { connected(kj::mv(link)); },
                       [this](kj::Exception&& e) { disconnected(e.getDescription().cStr()); }));
}

void Engine::connected(kj::Own<Link> link) {
  link_ = kj::mv(link);
  pause_ = min_reconnect_pause;
  // What an earlier boot knew, this one does not.
  std::erase_if(old_sessions_,
                [&](const OldSession& old) { return old.boot_id != link_->arena()->boot_id; });
  for (auto& [number, space] : spaces_) space->connect(*link_);
  tasks_.add(link_->when_lost().then([this] { disconnected("terraced closed the connection"); }));
  state_.set_tenant_names(link_->tenant_names());
  state_.set_connected(link_->request_budget(), link_->staging_area());
  tell(true, "");
}

void Engine::disconnected(const std::string& why) {
  state_.set_disconnected(why);
  stalled_ = probing_ = false;
  for (auto& [number, space] : spaces_) space->disconnect();
  for (auto& space : closing_spaces_) space->disconnect();
  closing_spaces_.clear();
  ledger_.clear();
  const bool was_connected = link_.get() != nullptr;
  if (was_connected) {
    old_sessions_.push_back({link_->arena()->boot_id, link_->arena()->session_id, link_->arena()});
    link_ = nullptr;
  }
  if (was_connected || !told_) tell(false, why);
  tasks_.add(timer_.afterDelay(next_pause()).then([this] { connect(); }));
}

kj::Duration Engine::next_pause() {
  std::uniform_int_distribution<std::int64_t> any(pause_.count() / 2, pause_.count());
  pause_ = std::min(pause_ * 2, max_reconnect_pause);
  return any(random_) * kj::MILLISECONDS;
}

void Engine::open_space(SpaceNumber number, const SpaceDescriptor& descriptor) {
  auto space = std::make_shared<RemoteSpace>(descriptor, ledger_);
  if (link_.get() != nullptr) space->connect(*link_);
  spaces_.emplace(number, std::move(space));
}

void Engine::close_space(SpaceNumber number) {
  const auto found = spaces_.find(number);
  if (found == spaces_.end()) return;
  found->second->close();
  closing_spaces_.push_back(std::move(found->second));
  spaces_.erase(found);
}

RemoteSpace* Engine::space(SpaceNumber number) {
  const auto found = spaces_.find(number);
  return found == spaces_.end() ? nullptr : found->second.get();
}

void Engine::ping(std::size_t request_bytes, std::size_t reply_bytes,
                  Answer<std::monostate> answer) {
  if (link_.get() == nullptr) return;
  constexpr std::size_t words_around_data = 8;
  auto request = link_->daemon().pingRequest(
      capnp::MessageSize{request_bytes / sizeof(capnp::word) + words_around_data, 0});
  request.initData(static_cast<unsigned>(request_bytes));
  request.setReplyBytes(static_cast<std::uint32_t>(reply_bytes));
  link_->add(request.send().then(
      [answer, reply_bytes](auto&& response) {
        if (response.getData().size() != reply_bytes)
          answer(error(StatusCode::internal, "a ping came back with another size"));
        else
          answer(std::monostate());
      },
      [answer](kj::Exception&& e) { answer(error(to_status(e))); }));
}

void Engine::suspect_stall() {
  if (link_.get() == nullptr || probing_) return;
  probing_ = true;
  link_->add(link_->daemon().pingRequest().send().then([this](auto&&) { probe_answered(); }));
  link_->add(timer_.afterDelay(kj_duration(stall_grace)).then([this] {
    if (probing_ && !stalled_) set_stalled(true);
  }));
}

void Engine::probe_answered() {
  probing_ = false;
  if (stalled_) set_stalled(false);
}

void Engine::set_stalled(bool stalled) {
  stalled_ = stalled;
  state_.set_stalled(stalled);
  tell(!stalled, stalled ? "terraced does not answer" : "");
}

void Engine::disown_old_sessions() {
  if (link_.get() == nullptr || stalled_) return;
  std::vector<OldSession> disowned;
  std::erase_if(old_sessions_, [&](const OldSession& old) {
    if (!old.arena.expired() || disowned.size() == max_disowned_per_call) return false;
    disowned.push_back(old);
    return true;
  });
  if (disowned.empty()) return;
  auto request = link_->session().touchesNothingRequest();
  auto list = request.initSessionIds(static_cast<unsigned>(disowned.size()));
  for (unsigned i = 0; i < list.size(); ++i) list.set(i, disowned[i].id);
  // Outlives the link: what was lost with it is said again on the next one, or the daemon would
  // hold the slots for as long as this process lives.
  tasks_.add(request.send().ignoreResult().catch_(
      [this, disowned = std::move(disowned)](kj::Exception&&) mutable {
        // A session's number means something else to a daemon that was started anew.
        std::erase_if(disowned, [this](const OldSession& old) {
          return link_.get() != nullptr && old.boot_id != link_->arena()->boot_id;
        });
        // Before the others: the last one is the one whose mapping may be taken over.
        old_sessions_.insert(old_sessions_.begin(), disowned.begin(), disowned.end());
      }));
}

void Engine::tell(bool connected, const std::string& why) {
  told_ = true;
  if (options_.on_change) options_.on_change(connected, why);
}

void Engine::taskFailed(kj::Exception&&) {
  // Whoever waited for it has its answer: the last copy of an Answer gives it.
}

}  // namespace terrace::client
