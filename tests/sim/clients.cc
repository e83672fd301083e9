// What clients do, and what they may expect of the answers.
#include <algorithm>

#include "core/checksum.h"
#include "tests/sim/simulation.h"

namespace terrace::sim {

namespace {
constexpr std::size_t most_leases = 4;  // of a client, before it lets go of some
}  // namespace

Simulation::Client* Simulation::any_client(bool abandoned_too) {
  std::vector<Client*> choice;
  std::size_t live = 0;
  for (const auto& [session, client] : clients_) {
    live += !client->abandoned;
    if (abandoned_too || !client->abandoned) choice.push_back(client.get());
  }
  if (live < profile_.clients) {
    auto client = std::make_unique<Client>();
    client->session = cache_->open_session();
    require(!clients_.contains(client->session), "a session's number was used twice");
    Client* const made = client.get();
    clients_.emplace(made->session, std::move(client));
    return made;
  }
  return choice[random_.pick(choice.size())];
}

std::pair<LeaseId, Simulation::Lease*> Simulation::any_lease(Client& client) {
  if (client.leases.empty()) return {0, nullptr};
  auto at = client.leases.begin();
  std::advance(at, random_.pick(client.leases.size()));
  return {at->first, &at->second};
}

std::pair<LeaseId, Simulation::Lease*> Simulation::any_lease_with_reserved(Client& client) {
  auto [id, lease] = any_lease(client);
  if (lease && lease->reserved.empty())
    for (auto& [other, candidate] : client.leases)
      if (!candidate.reserved.empty()) return {other, &candidate};
  return {id, lease};
}

std::span<std::byte> Simulation::bytes_of(SlotOffset slot, NodeId node) const {
  return {device_.data() + slot, universe_.node(node).contents.size()};
}

bool Simulation::holds(SlotOffset slot, NodeId node) const {
  return std::ranges::equal(bytes_of(slot, node), universe_.node(node).contents);
}

std::size_t Simulation::matched(NodeId node) const {
  const Node& to = universe_.node(node);
  return cache_->match(id_of(to.space), to.path_keys, {}).matched_blocks;
}

void Simulation::match() {
  const Node& node = universe_.node(any_node());
  std::vector<Token> tokens = node.path_tokens;
  if (random_.chance(0.5)) tokens[random_.pick(tokens.size())] ^= 1;
  if (remote_ && random_.chance(0.7)) look_up(node);
  const auto result = cache_->match(id_of(node.space), node.path_keys, tokens);
  require(result.blocks.size() == node.path.size(), "a match of another length");
  std::size_t leading = 0;
  while (leading < result.blocks.size() && is_present(result.blocks[leading])) ++leading;
  require(leading == result.matched_blocks, "a match counts its leading run wrongly");
  for (std::size_t i = 0; i < result.blocks.size(); ++i) {
    note(static_cast<std::uint64_t>(result.blocks[i]));
    if (is_present(result.blocks[i]))
      require(put_[node.path[i]], "a match of a block that nobody put");
  }
  if (result.partial_tokens > 0) check_partial(node, result, tokens);
}

void Simulation::check_partial(const Node& asked, const storage::MatchResult& result,
                               std::span<const Token> tokens) {
  ++tally_.partial_matches;
  const NodeId id = universe_.find(result.partial_key);
  if (id == no_node) return fail("a partial match of an unknown block");
  const Node& node = universe_.node(id);
  const std::size_t at = result.matched_blocks;
  require(node.space == asked.space, "a partial match in another space");
  require(node.parent_key ==
              (at == 0 ? universe_.spaces()[asked.space].digest : asked.path_keys[at - 1]),
          "a partial match below another prefix");
  const auto rest = tokens.subspan(at * node.tokens.size());
  require(result.partial_tokens < node.tokens.size() && result.partial_tokens <= rest.size() &&
              std::equal(rest.begin(), rest.begin() + result.partial_tokens, node.tokens.begin()),
          "a partial match of other tokens");
  require(matched(id) == node.path.size(), "a partial match of a block that cannot be reached");
}

void Simulation::acquire() {
  Client& client = *any_client();
  if (client.leases.size() >= most_leases && random_.chance(0.7)) return;
  const Node& node = universe_.node(any_node());
  std::vector<NodeId> nodes = node.path;
  if (random_.chance(0.1)) {  // not a prefix
    for (NodeId& one : nodes)
      if (random_.chance(0.4)) one = any_node();
  }
  storage::AcquireOptions options;
  if (random_.chance(0.4)) options.wait_ms = static_cast<std::uint32_t>(random_.between(1, 3000));
  if (random_.chance(0.1)) ask_for_partial(node, nodes, options);
  std::vector<BlockKey> keys;
  for (const NodeId one : nodes) keys.push_back(universe_.node(one).key);
  if (random_.chance(0.2))
    options.prefill_tokens_per_second = static_cast<double>(random_.between(1, 1'000'000));
  if (remote_ && random_.chance(0.5)) look_up(node);
  if (remote_ && random_.chance(0.5))
    options.remote_deadline_ns =
        clock_->monotonic_ns() + static_cast<std::int64_t>(random_.pick(60)) * 1'000'000;
  const bool warms = profile_.host_pages > 0 && random_.chance(0.08);
  if (warms) options.into = Tier::host;
  // A lease that would be new comes to nothing in a space that is dropped.
  if (is_dropping(node.space) && client.leases.empty()) return;
  const bool known_lease =
      !client.leases.empty() && (is_dropping(node.space) || (!warms && random_.chance(0.3)));
  const LeaseId lease = known_lease ? any_lease(client).first : client.next_lease++;
  const std::uint64_t acquisition = ++acquisitions_;
  client.leases[lease].waiting.push_back(acquisition);
  // A check that is under way for an earlier one counts for this one, too.
  std::uint64_t checked_since = acquisition;
  for (const auto& [session, other] : clients_)
    for (const auto& [id, waits] : other->leases)
      for (const std::uint64_t earlier : waits.waiting)
        checked_since = std::min(checked_since, earlier);
  const Asked asked{client.session,      lease,      acquisition,
                    checked_since,       served_ns_, static_cast<std::uint64_t>(clock_->unix_ms()),
                    options.wait_ms > 0, warms};
  cache_->acquire(
      client.session, lease, id_of(node.space), keys, options,
      [this, asked, nodes = std::move(nodes)](const std::vector<AcquiredBlock>& blocks) {
        // Whoever seals closes its own books first.
        if (sealing_) {
          told_while_sealing_.push_back([=, this] { delivered(asked, nodes, blocks); });
        } else {
          delivered(asked, nodes, blocks);
        }
      });
}

// What a match offers of a block whose tail differs.
void Simulation::ask_for_partial(const Node& node, std::vector<NodeId>& nodes,
                                 storage::AcquireOptions& options) {
  const auto result = cache_->match(id_of(node.space), node.path_keys, node.path_tokens);
  const NodeId partial = result.partial_tokens > 0 ? universe_.find(result.partial_key) : no_node;
  if (partial == no_node) return;
  nodes.assign(node.path.begin(), node.path.begin() + result.matched_blocks);
  nodes.push_back(partial);
  options.partial_tokens = result.partial_tokens;
}

void Simulation::delivered(const Asked& asked, const std::vector<NodeId>& nodes,
                           const std::vector<AcquiredBlock>& blocks) {
  const auto client = clients_.find(asked.session);
  if (client == clients_.end() || client->second->abandoned)
    return fail("an answer to a session that is gone");
  const auto lease = client->second->leases.find(asked.lease);
  if (lease == client->second->leases.end() ||
      std::erase(lease->second.waiting, asked.acquisition) != 1)
    return fail("an answer to a lease that is gone, or a second one");
  if (blocks.size() > nodes.size()) return fail("more blocks than were asked for");
  for (std::size_t i = 0; asked.warms && i < blocks.size(); ++i)
    promises_.used(universe_.node(nodes[i]).key, asked.waits ? served_ns_ : asked.served_ns,
                   asked.unix_ms);
  if (asked.warms) {
    ++tally_.warms;
    forget(*client->second, asked.lease);
    return cache_->release(asked.session, asked.lease);
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    note(blocks[i].slot);
    check_delivery(asked, blocks[i], nodes[i]);
    if (failed()) return;
    take_held(blocks[i].slot, nodes[i]);
    lease->second.held.push_back({blocks[i].slot, nodes[i]});
    // What was waited for was used when it came.
    promises_.used(universe_.node(nodes[i]).key, asked.waits ? served_ns_ : asked.served_ns,
                   asked.unix_ms);
    ++tally_.gets;
    tally_.from_device += blocks[i].from == Tier::device;
    tally_.from_host += blocks[i].from == Tier::host;
    tally_.from_disk += blocks[i].from == Tier::disk;
    tally_.from_redis += blocks[i].from == Tier::redis;
  }
  if (random_.chance(0.1)) act_in_callback(asked.session, asked.lease);
}

void Simulation::check_delivery(const Asked& asked, const AcquiredBlock& block, NodeId node) {
  require(put_[node] || asked.acquisition <= dropping_[universe_.node(node).space].last_acquisition,
          "a block that nobody put");
  if (block.slot + pages_of(node) * page_bytes > device_.size())
    return fail("a slot past the arena");
  if (block.from != Tier::device) sealers_.erase(node);
  const auto marked = marks_.find(block.slot);
  if (holds(block.slot, node)) {
    if (marked != marks_.end()) marks_.erase(marked);
    return;
  }
  if (marked == marks_.end() || marked->second.node != node) return fail("wrong bytes");
  // Workers are trusted with the device arena as far as device_verify says.
  const auto sealer = sealers_.find(node);
  if (sealer != sealers_.end() && sealer->second == asked.session) return;
  const Mark& mark = marked->second;
  switch (profile_.verify) {
    case storage::DeviceVerify::never:
      return;
    case storage::DeviceVerify::first_use:
      return require(!mark.from_seal, "wrong bytes at their first use");
    case storage::DeviceVerify::always:
      return require(!mark.from_seal && mark.acquisition >= asked.checked_since,
                     "wrong bytes although every use is checked");
  }
}

void Simulation::act_in_callback(SessionId session, LeaseId lease) {
  if (in_callback_) return;
  in_callback_ = true;
  Client& client = *clients_.at(session);
  switch (random_.pick(5)) {
    case 0:
      if (!may(Action::release)) break;
      forget(client, lease);
      cache_->release(session, lease);
      break;
    case 1:
      if (may(Action::leave) && random_.chance(0.2)) end(session);
      break;
    case 2:
      if (may(Action::acquire)) acquire();
      break;
    case 3:
      if (may(Action::reserve)) reserve();
      break;
    default:
      if (may(Action::seal)) seal();
  }
  in_callback_ = false;
}

bool Simulation::computed_by_others(NodeId node, const Client& client) const {
  for (const auto& [session, other] : clients_) {
    if (other->abandoned || other.get() == &client) continue;
    for (const auto& [id, lease] : other->leases)
      for (const Held& reserved : lease.reserved)
        if (reserved.name == node) return true;
  }
  return false;
}

void Simulation::reserve() {
  Client& client = *any_client();
  NodeId wanted = any_node();
  // Mostly what has something to compute.
  for (int tries = 0; tries < 4 && matched(wanted) == universe_.node(wanted).path.size(); ++tries)
    wanted = any_node();
  const Node& node = universe_.node(wanted);
  const std::size_t from = matched(wanted);
  if (is_dropping(node.space) && client.leases.empty()) return;
  const bool known_lease =
      !client.leases.empty() &&
      (is_dropping(node.space) || client.leases.size() >= most_leases || random_.chance(0.5));
  const LeaseId id = known_lease ? any_lease(client).first : client.next_lease++;
  std::vector<BlockKey> keys(node.path_keys.begin() + static_cast<std::ptrdiff_t>(from),
                             node.path_keys.end());
  if (keys.size() > 1 && random_.chance(0.2)) keys.resize(random_.between(1, keys.size()));
  const std::size_t unnamed = random_.chance(0.3) ? random_.between(1, 2) : 0;
  std::vector<SlotOffset> slots;
  const bool others = !keys.empty() && computed_by_others(node.path[from], client);
  if (random_.chance(0.5)) {
    auto claimed = cache_->claim(client.session, id, id_of(node.space), keys, unnamed);
    require(claimed.has_value() != others || is_dropping(node.space),
            "a claim and what others compute disagree");
    tally_.refused_claims += !claimed;
    if (!claimed) return;
    slots = std::move(*claimed);
  } else {
    slots = cache_->reserve(client.session, id, id_of(node.space), keys, unnamed);
  }
  require(slots.size() <= keys.size() + unnamed, "more slots than were asked for");
  if (life_ends_at_ != 0) return require(slots.empty(), "slots while draining");
  Lease& lease = client.leases[id];
  for (std::size_t i = 0; i < slots.size() && !failed(); ++i) {
    note(slots[i]);
    const NodeId name = i < keys.size() ? node.path[from + i] : no_node;
    if (slots[i] % page_bytes != 0 ||
        slots[i] + pages_of(node.path[0]) * page_bytes > device_.size())
      return fail("a slot that does not lie in the arena");
    take_reserved(slots[i], pages_of(node.path[0]));
    marks_.erase(slots[i]);
    lease.reserved.push_back({slots[i], name == no_node ? node.path[0] : name, name});
    std::ranges::fill(bytes_of(slots[i], node.path[0]), std::byte{0x77});
  }
}

void Simulation::seal() {
  Client& client = *any_client();
  const auto [id, lease] = any_lease_with_reserved(client);
  if (!lease || lease->reserved.empty()) return;
  const std::size_t count = random_.between(1, std::min<std::size_t>(lease->reserved.size(), 4));
  struct Try {
    Held what;
    bool valid = true, wrong_bytes = false;
    bool in_device = false;
  };
  std::vector<Try> tries;
  std::vector<storage::SealRequest> requests;
  std::vector<NodeId> sealed_here;
  const bool backwards = random_.chance(0.1);
  for (std::size_t i = 0; i < count; ++i) {
    Try one{lease->reserved[backwards ? count - 1 - i : i]};
    // A worker may compute something else than it said.
    if (random_.chance(0.1)) {
      const auto& nodes = universe_.spaces()[universe_.node(one.what.node).space].nodes;
      one.what.node = nodes[random_.pick(nodes.size())];
    }
    const Node& node = universe_.node(one.what.node);
    std::ranges::copy(node.contents, bytes_of(one.what.slot, one.what.node).begin());
    storage::SealRequest request{one.what.slot, node.parent_key, node.tokens, node.checksum};
    const auto state = cache_->match(id_of(node.space), node.path_keys, {}).blocks;
    bool parent_there = true;
    for (std::size_t above = 0; above + 1 < node.path.size(); ++above)
      parent_there =
          parent_there && ((is_present(state[above]) && state[above] != BlockState::redis) ||
                           std::ranges::find(sealed_here, node.path[above]) != sealed_here.end());
    one.valid = parent_there && life_ends_at_ == 0;
    one.in_device = state.back() == BlockState::device;
    if (profile_.faults.scribbles && random_.chance(0.08)) {
      one.wrong_bytes = true;
      if (random_.chance(0.5)) {
        request.checksum ^= 1;
      } else {
        bytes_of(one.what.slot, one.what.node)[random_.pick(node.contents.size())] ^= std::byte{8};
      }
    }
    if (random_.chance(0.03)) {
      one.valid = false;
      switch (random_.pick(3)) {
        case 0:
          request.tokens.pop_back();
          break;
        case 1:
          request.parent.bytes[7] ^= 1;
          break;
        default:
          request.slot += page_bytes * 3 / 2;
      }
    }
    if (one.valid) sealed_here.push_back(one.what.node);
    tries.push_back(one);
    requests.push_back(std::move(request));
  }
  sealing_ = true;
  const auto outcomes = cache_->seal(client.session, id, requests);
  sealing_ = false;
  if (outcomes.size() != requests.size()) return fail("another number of outcomes");
  std::vector<Held> left(lease->reserved.begin() + static_cast<std::ptrdiff_t>(count),
                         lease->reserved.end());
  for (std::size_t i = 0; i < count; ++i) {
    const Try& one = tries[i];
    note(static_cast<std::uint64_t>(outcomes[i]));
    if (!one.valid) {
      require(outcomes[i] == SealOutcome::invalid, "a seal that makes no sense was accepted");
    } else {
      require(
          outcomes[i] != SealOutcome::invalid || is_dropping(universe_.node(one.what.node).space),
          "a seal that is right was refused");
      if (one.in_device) require(outcomes[i] == SealOutcome::duplicate, "a block was sealed twice");
    }
    if (outcomes[i] != SealOutcome::sealed) {
      ++(outcomes[i] == SealOutcome::duplicate ? tally_.duplicates : tally_.refused_seals);
      left.push_back(one.what);
      // Whatever was waited for, it came to nothing.
      if (requests[i].slot == one.what.slot && life_ends_at_ == 0) left.back().name = no_node;
      continue;
    }
    ++tally_.seals;
    drop(one.what, true);
    take_held(one.what.slot, one.what.node);
    lease->held.push_back(one.what);
    sealers_[one.what.node] = client.session;
    put_[one.what.node] = true;
    if (one.wrong_bytes) marks_[one.what.slot] = {one.what.node, acquisitions_, true};
  }
  lease->reserved = std::move(left);
  // Nothing may come between: to the cache, all of this has happened.
  const bool in_callback = std::exchange(in_callback_, true);
  for (const auto& told : std::exchange(told_while_sealing_, {})) told();
  in_callback_ = in_callback;
}

void Simulation::release() {
  Client& client = *any_client();
  const auto [id, lease] = any_lease(client);
  if (!lease) return;
  forget(client, id);
  cache_->release(client.session, id);
}

// Before the cache is told: a slot may be somebody else's in the same call.
void Simulation::forget(Client& client, LeaseId id) {
  const auto lease = client.leases.extract(id);
  for (const Held& held : lease.mapped().held) drop(held, false);
  for (const Held& held : lease.mapped().reserved) drop(held, true);
}

void Simulation::leave() {
  Client& client = *any_client(true);
  if (client.abandoned || random_.chance(0.4)) return end(client.session);
  client.abandoned = true;
  for (auto& [id, lease] : client.leases) lease.waiting.clear();
  cache_->abandon_session(client.session);
}

void Simulation::end(SessionId session) {
  const auto at = clients_.find(session);
  Client& client = *at->second;
  while (!client.leases.empty()) forget(client, client.leases.begin()->first);
  dead_.push_back(std::move(at->second));
  clients_.erase(at);
  cache_->end_session(session);
}

void Simulation::scribble() {
  Client& client = *any_client(true);
  const auto [id, lease] = any_lease(client);
  if (!lease) return;
  // What it reserved is its own to write to, also after its connection is lost.
  for (const Held& held : lease->reserved)
    bytes_of(held.slot, held.node)[random_.pick(64)] ^= std::byte{0x55};
  if (!profile_.faults.scribbles || lease->held.empty()) return;
  const Held& held = lease->held[random_.pick(lease->held.size())];
  bytes_of(held.slot, held.node)[random_.pick(64)] ^= std::byte{1};
  promises_.source_changed(universe_.node(held.node).key);
  ++tally_.scribbles;
  Mark& mark = marks_[held.slot];
  mark = {held.node, acquisitions_, mark.node == held.node && mark.from_seal};
}

std::size_t Simulation::pages_of(NodeId node) const {
  return universe_.spaces()[universe_.node(node).space].slot_bytes / page_bytes;
}

void Simulation::take_reserved(SlotOffset slot, std::size_t pages) {
  for (std::size_t i = 0; i < pages; ++i) {
    Page& page = pages_[slot / page_bytes + i];
    require(page.free(), "a slot was handed out that somebody has");
    page = {slot, no_node, 0, true};
  }
}

void Simulation::take_held(SlotOffset slot, NodeId node) {
  for (std::size_t i = 0; i < pages_of(node); ++i) {
    Page& page = pages_[slot / page_bytes + i];
    require(!page.reserved, "a block lies where somebody may write");
    require(page.holders == 0 || (page.slot == slot && page.node == node),
            "two blocks lie in one place");
    page = {slot, node, page.holders + 1, false};
  }
}

void Simulation::drop(const Held& held, bool reserved) {
  for (std::size_t i = 0; i < pages_of(held.node); ++i) {
    Page& page = pages_[held.slot / page_bytes + i];
    if (reserved) {
      page.reserved = false;
    } else {
      --page.holders;
    }
  }
}

}  // namespace terrace::sim
