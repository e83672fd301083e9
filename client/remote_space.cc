#include "client/remote_space.h"

#include <algorithm>

#include "client/call.h"
#include "client/limits.h"
#include "core/checksum.h"
#include "protocol/descriptor.h"
#include "protocol/packed.h"

namespace terrace::client {
namespace {

using protocol::pack;
using protocol::unpack;

Result<Match> read_match(protocol::Space::MatchResults::Reader answer, std::size_t keys,
                         std::uint32_t block_tokens) {
  const auto states = unpack<std::uint8_t>(answer.getStates());
  Match match;
  match.matched_blocks = answer.getMatchedBlocks();
  if (answer.getPartialTokens() > 0) {
    const auto key = protocol::unpack_key(answer.getPartialKey());
    if (!key || answer.getPartialTokens() >= block_tokens || answer.getPartialTier() >= tier_count)
      return not_understood();
    match.partial_tokens = answer.getPartialTokens();
    match.partial_key = *key;
    match.partial_tier = static_cast<Tier>(answer.getPartialTier());
  }
  match.load_time = std::chrono::nanoseconds(answer.getLoadNs());
  if (!states || states->size() != keys || match.matched_blocks > keys) return not_understood();
  match.blocks.reserve(keys);
  for (const std::uint8_t state : *states) {
    if (state > static_cast<std::uint8_t>(BlockState::redis)) return not_understood();
    match.blocks.push_back(static_cast<BlockState>(state));
  }
  return match;
}

Result<std::vector<Slot>> read_slots(capnp::Data::Reader data,
                                     const std::shared_ptr<const SessionArena>& arena,
                                     std::uint64_t block_bytes, std::size_t most) {
  const auto offsets = unpack<std::uint64_t>(data);
  if (!offsets || offsets->size() > most) return not_understood();
  std::vector<Slot> slots;
  slots.reserve(offsets->size());
  for (const std::uint64_t offset : *offsets) {
    auto slot = slot_at(arena, offset, block_bytes);
    if (!slot) return not_understood();
    slots.push_back(std::move(*slot));
  }
  return slots;
}

Result<std::vector<AcquiredBlock>> read_acquired(protocol::Space::AcquireResults::Reader answer,
                                                 const std::shared_ptr<const SessionArena>& arena,
                                                 std::uint64_t block_bytes, std::size_t most) {
  auto slots = read_slots(answer.getSlots(), arena, block_bytes, most);
  if (!slots) return error(slots.error());
  const auto tiers = unpack<std::uint8_t>(answer.getTiers());
  if (!tiers || tiers->size() != slots->size()) return not_understood();
  std::vector<AcquiredBlock> blocks;
  blocks.reserve(slots->size());
  for (std::size_t i = 0; i < slots->size(); ++i) {
    if ((*tiers)[i] >= tier_count) return not_understood();
    blocks.push_back({std::move((*slots)[i]), static_cast<Tier>((*tiers)[i])});
  }
  return blocks;
}

tl::unexpected<Status> no_arena() {
  return error(StatusCode::failed_precondition,
               "this client maps no arena: it has put and get (ClientOptions::payload)");
}

// Room for what a request carries besides its packed fields.
constexpr std::size_t request_words = 24;

capnp::MessageSize request_size(std::size_t packed_bytes) {
  return {request_words + packed_bytes / sizeof(capnp::word), 1};
}

}  // namespace

std::uint32_t ms_until(Deadline deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Deadline::clock::now());
  return static_cast<std::uint32_t>(
      std::clamp<std::chrono::milliseconds::rep>(left.count(), 1, UINT32_MAX));
}

void RemoteSpace::connect(Link& link) {
  link_ = &link;
  auto request = link.session().openSpaceRequest();
  protocol::write_descriptor(descriptor_, request.initDescriptor());
  // Used before the answer is there: calls travel right behind. If it fails, so do they.
  remote_ = request.send().getSpace();
}

void RemoteSpace::disconnect() {
  link_ = nullptr;
  remote_ = nullptr;
  leases_.clear();
  outgoing_.clear();
  queued_blocks_ = 0;
  unanswered_seals_ = 0;
  streamed_puts_.clear();
  streaming_put_ = false;
  pump_scheduled_ = false;
}

void RemoteSpace::match(std::span<const BlockKey> keys, std::span<const Token> tokens,
                        Deadline deadline, Answer<Match> answer) {
  if (link_ == nullptr) return;
  auto request = remote_.matchRequest(request_size(keys.size_bytes() + tokens.size_bytes()));
  const bool wanted = answer.call().while_wanted([&] {
    request.setKeys(pack(keys));
    request.setTokens(pack(tokens));
    request.setBudgetMs(ms_until(deadline));
  });
  if (!wanted) return;
  link_->add(request.send().then(
      [answer, count = keys.size(), block_tokens = descriptor_.block_tokens](auto&& response) {
        answer(read_match(response, count, block_tokens));
      },
      [answer](kj::Exception&& e) { answer(error(to_status(e))); }));
}

void RemoteSpace::acquire(LeaseId lease, WireLease wire, std::span<const BlockKey> keys,
                          const AcquireOptions& options, Deadline deadline,
                          Answer<std::vector<AcquiredBlock>> answer) {
  if (link_ == nullptr) return;
  if (!link_->arena()->has_memory()) {
    answer(no_arena());
    return;
  }
  auto request = remote_.acquireRequest(request_size(keys.size_bytes()));
  if (!answer.call().while_wanted([&] { request.setKeys(pack(keys)); })) return;
  request.setLease(wire);
  request.setPrefillTokensPerSecond(options.prefill_tokens_per_second);
  request.setPartialTokens(options.partial_tokens);
  request.setBudgetMs(ms_until(deadline));
  request.setWaitMs(static_cast<std::uint32_t>(
      std::clamp<std::chrono::milliseconds::rep>(options.wait.count(), 0, UINT32_MAX)));
  leases_[lease].wires.push_back(wire);
  link_->add(request.send().then(
      [answer, arena = link_->arena(), bytes = descriptor_.block_bytes, most = keys.size()](
          auto&& response) { answer(read_acquired(response, arena, bytes, most)); },
      [answer](kj::Exception&& e) { answer(error(to_status(e))); }));
}

void RemoteSpace::reserve(LeaseId lease, WireLease wire, std::span<const BlockKey> keys,
                          std::size_t unnamed, bool unless_taken,
                          Answer<std::optional<std::vector<Slot>>> answer) {
  if (link_ == nullptr) return;
  if (!link_->arena()->has_memory()) {
    answer(no_arena());
    return;
  }
  auto request = remote_.reserveRequest(request_size(keys.size_bytes()));
  if (!answer.call().while_wanted([&] { request.setKeys(pack(keys)); })) return;
  request.setLease(wire);
  request.setUnnamed(static_cast<std::uint32_t>(unnamed));
  request.setUnlessTaken(unless_taken);
  leases_[lease].wires.push_back(wire);
  link_->add(request.send().then(
      [weak = weak_from_this(), answer, lease, wire, arena = link_->arena(),
       most = keys.size() + unnamed](auto&& response) {
        const auto self = weak.lock();
        if (!self) return;
        if (response.getTaken()) {
          answer(std::optional<std::vector<Slot>>());
          return;
        }
        auto slots = read_slots(response.getSlots(), arena, self->descriptor_.block_bytes, most);
        const auto held = self->leases_.find(lease);
        if (slots && held != self->leases_.end() &&
            std::ranges::count(held->second.wires, wire) > 0)
          for (const Slot& slot : *slots) held->second.reserved[slot.offset] = wire;
        if (slots) {
          answer(std::optional(std::move(*slots)));
        } else {
          answer(error(slots.error()));
        }
      },
      [answer](kj::Exception&& e) { answer(error(to_status(e))); }));
}

void RemoteSpace::give_up(LeaseId lease, WireLease wire) {
  const auto held = leases_.find(lease);
  if (held == leases_.end()) return;
  // Not there if the call was never sent.
  if (std::erase(held->second.wires, wire) == 0) return;
  std::erase_if(held->second.reserved, [&](const auto& entry) { return entry.second == wire; });
  // Ahead of queued seals, none of which can be of this lease. Right behind the call itself.
  send_release(ledger_.enter(), {wire});
}

void RemoteSpace::seal(LeaseId lease, std::vector<SealBlock> blocks) {
  const auto held = leases_.find(lease);
  if (link_ == nullptr || held == leases_.end()) return;
  if (queued_blocks_ + blocks.size() > max_queued_seal_blocks) return;
  // In pieces, each of one lease as the daemon knows it.
  WireLease wire = 0;
  std::vector<SealBlock> piece;
  for (SealBlock& block : blocks) {
    const auto reserved = held->second.reserved.find(block.slot.offset);
    // A slot of an earlier session, or one that this lease did not reserve.
    if (block.slot.arena != link_->arena() || reserved == held->second.reserved.end()) continue;
    if (!piece.empty() && (reserved->second != wire || piece.size() == max_blocks_per_seal))
      queue_seal(wire, std::exchange(piece, {}));
    wire = reserved->second;
    piece.push_back(std::move(block));
  }
  if (!piece.empty()) queue_seal(wire, std::move(piece));
  pump();
}

void RemoteSpace::release(LeaseId lease) {
  const auto held = leases_.find(lease);
  if (link_ == nullptr || held == leases_.end()) return;
  std::vector<WireLease> wires = std::move(held->second.wires);
  leases_.erase(held);
  queue_release(std::move(wires));
  pump();
}

void RemoteSpace::close() {
  if (link_ == nullptr) return;
  std::vector<WireLease> wires;
  for (const auto& [lease, held] : leases_)
    wires.insert(wires.end(), held.wires.begin(), held.wires.end());
  leases_.clear();
  queue_release(std::move(wires));
  pump();
}

void RemoteSpace::queue_seal(WireLease wire, std::vector<SealBlock> blocks) {
  queued_blocks_ += blocks.size();
  outgoing_.push_back({.entry = ledger_.enter(), .lease = wire, .blocks = std::move(blocks)});
}

void RemoteSpace::queue_release(std::vector<WireLease> wires) {
  if (!wires.empty()) outgoing_.push_back({.entry = ledger_.enter(), .releases = std::move(wires)});
}

Result<std::uint64_t> RemoteSpace::checksum_of(const Slot& slot) const {
  const std::span<const std::byte> payload(slot.address, descriptor_.block_bytes);
  const auto& imported = link_->arena()->imported;
  if (imported) return imported->checksum(payload);
  return payload_checksum(payload);
}

// Sends what is ready. A checksum takes a while (720 KiB: about 50 us), so there is one a turn, and
// calls that somebody waits for go in between.
void RemoteSpace::pump() {
  while (!outgoing_.empty() && !pump_scheduled_) {
    Outgoing& next = outgoing_.front();
    if (next.checksums.size() < next.blocks.size()) {
      const Slot& slot = next.blocks[next.checksums.size()].slot;
      const auto checksum = checksum_of(slot);
      if (checksum) {
        next.checksums.push_back(*checksum);
      } else {
        // Nor can what comes behind it be found; its slots go with their lease.
        queued_blocks_ -= next.blocks.size() - next.checksums.size();
        next.blocks.resize(next.checksums.size());
        if (next.blocks.empty()) {
          ledger_.answered(next.entry);
          outgoing_.pop_front();
          continue;
        }
      }
      pump_scheduled_ = true;
      link_->add(link_->timer().afterDelay(0 * kj::NANOSECONDS).then([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (!self) return;
        self->pump_scheduled_ = false;
        self->pump();
      }));
      return;
    }
    if (next.blocks.empty()) {
      send_release(next.entry, next.releases);
    } else {
      if (unanswered_seals_ >= max_unanswered_seals) return;  // an answer goes on
      queued_blocks_ -= next.blocks.size();
      send_seal(next);
    }
    outgoing_.pop_front();
  }
}

void RemoteSpace::send_seal(const Outgoing& outgoing) {
  auto request = remote_.sealRequest();
  request.setLease(outgoing.lease);
  auto blocks = request.initBlocks(static_cast<unsigned>(outgoing.blocks.size()));
  for (std::size_t i = 0; i < outgoing.blocks.size(); ++i) {
    auto block = blocks[static_cast<unsigned>(i)];
    block.setSlot(outgoing.blocks[i].slot.offset);
    block.setParent(pack(outgoing.blocks[i].parent));
    block.setTokens(pack(std::span<const Token>(outgoing.blocks[i].tokens)));
    block.setChecksum(outgoing.checksums[i]);
  }
  ++unanswered_seals_;
  const auto answered = [weak = weak_from_this(), &ledger = ledger_, entry = outgoing.entry] {
    ledger.answered(entry);
    const auto self = weak.lock();
    if (!self) return;
    --self->unanswered_seals_;
    self->pump();
  };
  link_->add(request.send().then([answered](auto&&) { answered(); },
                                 [answered](kj::Exception&&) { answered(); }));
}

void RemoteSpace::send_release(std::uint64_t entry, const std::vector<WireLease>& wires) {
  auto request = remote_.releaseRequest(request_size(wires.size() * sizeof(WireLease)));
  auto leases = request.initLeases(static_cast<unsigned>(wires.size()));
  for (std::size_t i = 0; i < wires.size(); ++i) leases.set(static_cast<unsigned>(i), wires[i]);
  Ledger& ledger = ledger_;
  link_->add(request.send().then([&ledger, entry](auto&&) { ledger.answered(entry); },
                                 [&ledger, entry](kj::Exception&&) { ledger.answered(entry); }));
}

}  // namespace terrace::client
