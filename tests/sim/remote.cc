// The tier that other hosts share: what they do there, what goes wrong with it, and the questions
// that are asked of it.
#include <algorithm>

#include "tests/sim/simulation.h"

namespace terrace::sim {

using storage::Breaker;
using storage::FakeRemote;

std::unique_ptr<storage::RemoteTier> Simulation::open_remote() {
  if (!profile_.remote) return nullptr;
  auto remote = std::make_unique<FakeRemote>(in_redis_);
  remote_ = remote.get();
  ++life_;
  return remote;
}

void Simulation::close_remote(bool crash) {
  if (!remote_) return;
  tally_.shared += remote_->writes();
  // What was sent may have arrived although nobody was told.
  for (std::size_t i = 0; crash && i < remote_->under_way().size();) {
    if (remote_->under_way()[i].kind == FakeRemote::Kind::write && random_.chance(0.5))
      remote_->complete(i);
    else
      ++i;
  }
  remote_ = nullptr;
  remote_stalls_until_ = 0;
  told_ = looks_;  // nobody is left to be told
}

void Simulation::remote_world() {
  if (!remote_ || !random_.chance(0.08)) return;
  const Node& node = universe_.node(any_node());
  const auto value = in_redis_.values.find(node.key);
  switch (random_.pick(8)) {
    case 0:
    case 1:
      // Another host computed all of it.
      for (const NodeId id : node.path) {
        const Node& one = universe_.node(id);
        in_redis_.values[one.key] = {universe_.spaces()[one.space].digest, one.parent_key,
                                     one.tokens, one.contents, one.checksum};
        put_[id] = true;
      }
      break;
    case 2:
      if (profile_.faults.remote_forgets && value != in_redis_.values.end())
        in_redis_.values.erase(value);
      break;
    case 3:
      if (profile_.faults.remote_forgets && random_.chance(0.1)) in_redis_.values.clear();
      break;
    case 4:
      if (!profile_.faults.remote_rots || value == in_redis_.values.end()) break;
      if (random_.chance(0.7))
        value->second.payload[random_.pick(value->second.payload.size())] ^= std::byte{0x40};
      else
        value->second.tokens[random_.pick(value->second.tokens.size())] ^= 2;
      break;
    case 5:
      remote_stalls_until_ = step_ + random_.pick(40);
      break;
    default:
      if (profile_.faults.remote_fails) remote_->set_breaker(static_cast<Breaker>(random_.pick(3)));
  }
}

void Simulation::look_up(const Node& node) {
  std::vector<Token> tokens = node.path_tokens;
  if (random_.chance(0.1)) tokens[random_.pick(tokens.size())] ^= 1;  // not those of the keys
  const std::int64_t deadline_ns =
      clock_->monotonic_ns() + static_cast<std::int64_t>(random_.pick(40)) * 1'000'000;
  ++looks_;
  cache_->look_up(id_of(node.space), node.path_keys, tokens, deadline_ns,
                  [this, life = life_, told = std::make_shared<bool>(false)] {
                    require(life == life_, "an answer in another life");
                    require(!std::exchange(*told, true), "a second answer to one question");
                    ++told_;
                  });
}

void Simulation::complete_remote(bool healthy) {
  if (healthy) remote_->set_breaker(Breaker::closed);
  if (!healthy && step_ < remote_stalls_until_) return;
  Status failure;
  if (!healthy && profile_.faults.remote_fails && random_.chance(profile_.fault_rate)) {
    constexpr StatusCode codes[] = {StatusCode::unavailable, StatusCode::no_space,
                                    StatusCode::io_error};
    failure = Status(random_.one_of(codes), "told to");
  }
  remote_->complete(random_.pick(remote_->under_way().size()), failure);
}

void Simulation::expire_remote() {
  if (!remote_) return;
  if (profile_.faults.remote_fails) return remote_->expire(clock_->monotonic_ns());
  // A server that never fails answers in the last moment.
  for (std::size_t i = 0; i < remote_->under_way().size();) {
    if (remote_->under_way()[i].deadline_ns() <= clock_->monotonic_ns())
      remote_->complete(i);
    else
      ++i;
  }
}

}  // namespace terrace::sim
