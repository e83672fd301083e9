#include "storage/cache/flights.h"

#include <algorithm>
#include <cassert>

namespace terrace::storage {

void Flights::end(const Flight& flight, SessionId session) {
  const auto found = reservers_.find(flight);
  if (found == reservers_.end()) return;
  std::vector<SessionId>& sessions = found->second;
  if (const auto one = std::ranges::find(sessions, session); one != sessions.end())
    sessions.erase(one);
  if (sessions.empty()) reservers_.erase(found);
  changed(flight);
}

bool Flights::others_compute(const Flight& flight, SessionId session) const {
  const auto found = reservers_.find(flight);
  return found != reservers_.end() &&
         std::ranges::any_of(found->second, [&](SessionId one) { return one != session; });
}

std::size_t Flights::reservations() const {
  std::size_t count = 0;
  for (const auto& [key, sessions] : reservers_) count += sessions.size();
  return count;
}

void Flights::wait(std::uint64_t acquisition, const Flight& flight, std::int64_t limit_ns) {
  waiters_[flight].push_back(acquisition);
  limits_.emplace(limit_ns, acquisition);
}

void Flights::stop_waiting(std::uint64_t acquisition, const Flight& flight, std::int64_t limit_ns) {
  const auto found = waiters_.find(flight);
  assert(found != waiters_.end());
  std::erase(found->second, acquisition);
  if (found->second.empty()) waiters_.erase(found);
  limits_.erase({limit_ns, acquisition});
}

void Flights::changed(const Flight& flight) {
  if (!waiters_.empty() && waiters_.contains(flight)) changed_.push_back(flight);
}

std::vector<std::uint64_t> Flights::take_changed() {
  std::vector<std::uint64_t> waiting;
  for (const Flight& flight : std::exchange(changed_, {}))
    if (const auto found = waiters_.find(flight); found != waiters_.end())
      waiting.insert(waiting.end(), found->second.begin(), found->second.end());
  return waiting;
}

std::vector<std::uint64_t> Flights::past_limit(std::int64_t now_ns) const {
  std::vector<std::uint64_t> over;
  for (const auto& [limit_ns, acquisition] : limits_) {
    if (limit_ns > now_ns) break;
    over.push_back(acquisition);
  }
  return over;
}

std::vector<std::uint64_t> Flights::all_waiting() const {
  std::vector<std::uint64_t> all;
  for (const auto& [limit_ns, acquisition] : limits_) all.push_back(acquisition);
  return all;
}

std::optional<std::int64_t> Flights::next_limit_ns() const {
  if (limits_.empty()) return std::nullopt;
  return limits_.begin()->first;
}

bool Flights::waits(std::uint64_t acquisition, const Flight& flight) const {
  const auto found = waiters_.find(flight);
  return found != waiters_.end() && std::ranges::count(found->second, acquisition) == 1;
}

}  // namespace terrace::storage
