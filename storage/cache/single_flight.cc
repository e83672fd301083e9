// Single flight: waiting for what other sessions are computing, instead of computing it again.
#include "storage/cache/impl.h"

namespace terrace::storage {

std::optional<std::vector<SlotOffset>> TieredCache::Impl::claim(SessionId session, LeaseId lease,
                                                                SpaceId space,
                                                                std::span<const BlockKey> keys,
                                                                std::size_t unnamed) {
  if (!keys.empty()) {
    const Block* first = catalog_.find(keys.front());
    // What only Redis has was not worth loading, or did not come in time.
    if (first && first->space == space && first->kept() && !expired(*first)) return std::nullopt;
    if (flights_.others_compute({space, keys.front()}, session)) return std::nullopt;
  }
  return reserve(session, lease, space, keys, unnamed);
}

void TieredCache::Impl::await_others(std::uint64_t id, Acquisition& acquisition,
                                     std::span<const BlockKey> keys) {
  const auto others_compute = [&](const BlockKey& key) {
    return flights_.others_compute({acquisition.space, key}, acquisition.session);
  };
  if (keys.empty() || !others_compute(keys.front())) return;
  // As far as there is something to wait for: what a client may have copied here is bounded by the
  // slots of the arena and the blocks that are known.
  std::size_t count = 1;
  for (; count < keys.size(); ++count) {
    if (others_compute(keys[count])) continue;
    const Block* block = catalog_.find(keys[count]);
    if (!block || block->space != acquisition.space || !block->kept() || expired(*block)) break;
  }
  acquisition.awaited.assign(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(count));
  await_next(id, acquisition);
}

void TieredCache::Impl::await_next(std::uint64_t id, Acquisition& acquisition) {
  acquisition.awaits = true;
  flights_.wait(id, {acquisition.space, acquisition.awaited[acquisition.next_awaited]},
                acquisition.wait_limit_ns);
}

void TieredCache::Impl::stop_awaiting(std::uint64_t id, Acquisition& acquisition) {
  if (!std::exchange(acquisition.awaits, false)) return;
  if (acquisition.times)
    acquisition.times->others_ns = clock_.monotonic_ns() - acquisition.started_ns;
  flights_.stop_waiting(id, {acquisition.space, acquisition.awaited[acquisition.next_awaited]},
                        acquisition.wait_limit_ns);
}

void TieredCache::Impl::look_again(std::uint64_t id) {
  const auto found = acquisitions_.find(id);
  if (found == acquisitions_.end() || !found->second.awaits) return;
  Acquisition& acquisition = found->second;
  const std::span<const BlockKey> rest =
      std::span(acquisition.awaited).subspan(acquisition.next_awaited);
  std::vector<Block*> sealed;
  for (const BlockKey& key : rest) {
    Block* block = catalog_.find(key);
    if (!block || block->space != acquisition.space || !block->kept() || expired(*block)) break;
    sealed.push_back(block);
  }
  // Nothing has come, and it is still under way.
  if (sealed.empty() &&
      flights_.others_compute({acquisition.space, rest.front()}, acquisition.session))
    return;
  stop_awaiting(id, acquisition);
  acquisition.next_awaited += sealed.size();
  awaited_blocks_ += sealed.size();
  const std::size_t length = acquisition.slots.size() + sealed.size();
  // It may have become shorter at once.
  const bool whole = extend(id, sealed, 0) && acquisition.slots.size() == length;
  if (whole && sealed.size() < rest.size() &&
      flights_.others_compute({acquisition.space, rest[sealed.size()]}, acquisition.session))
    await_next(id, acquisition);
  if (acquisition.finished()) finished_.push_back(id);
}

void TieredCache::Impl::end_wait(std::uint64_t id) {
  Acquisition& acquisition = acquisitions_.at(id);
  stop_awaiting(id, acquisition);
  if (acquisition.finished()) finished_.push_back(id);
}

void TieredCache::Impl::end_all_waits() {
  for (const std::uint64_t id : flights_.all_waiting()) end_wait(id);
  deliver_finished();
}

void TieredCache::Impl::run_deadlines() {
  for (const std::uint64_t id : flights_.past_limit(clock_.monotonic_ns())) {
    ++expired_waits_;
    end_wait(id);
  }
  cut_late_loads();
  end_late_lookups();
  deliver_finished();
  tell_lookups();
}

void TieredCache::Impl::tell_waiting() {
  for (const std::uint64_t id : flights_.take_changed()) look_again(id);
  deliver_finished();
}

}  // namespace terrace::storage
