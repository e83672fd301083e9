// put and get: blocks copied between the cache and memory of clients. Each is a session of its own
// with one lease, which ends when its last copy has: no client can hold anything by them, nor take
// a slot away that is being copied.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

namespace {

constexpr LeaseId transfer_lease = 1;

}  // namespace

void TieredCache::Impl::put(PutRequest request, PutCallback done) {
  std::vector<PutOutcome> outcomes(request.sources.size(), PutOutcome::no_room);
  const SpaceEntry* const space = usable_space(request.space);
  if (!space || draining_) return done(std::move(outcomes));
  const std::size_t block_tokens = space->descriptor.block_tokens;
  TransferId behind = 0;
  if (request.parent != space->digest) {
    const Block* const parent = catalog_.find(request.parent);
    if (!parent || parent->space != space->id || !catalog_.reachable(*parent) || expired(*parent)) {
      // A client does not wait for one piece of a prompt before it puts the next. Keys are no
      // secret: those of another space are neither waited for nor shown.
      const auto before = puts_by_key_.find(request.parent);
      if (before == puts_by_key_.end() ||
          transfers_.at(before->second).put.space != request.space) {
        std::ranges::fill(outcomes, PutOutcome::unreachable);
        return done(std::move(outcomes));
      }
      behind = before->second;
    }
  }
  Transfer transfer{.put = std::move(request), .put_done = std::move(done), .behind = behind};
  const PutRequest& wanted = transfer.put;
  std::vector<BlockKey> missing;
  BlockKey parent = wanted.parent;
  for (std::size_t i = 0; i < wanted.sources.size(); ++i) {
    const auto tokens = std::span(wanted.tokens).subspan(i * block_tokens, block_tokens);
    const BlockKey key = derive_block_key(parent, tokens);
    const Block* const block = catalog_.find(key);
    if (block && block->space == space->id && block->kept() && !block->disk_unreadable &&
        !expired(*block)) {
      outcomes[i] = PutOutcome::present;
    } else {
      transfer.parts.push_back({.index = i, .key = key, .parent = parent});
      missing.push_back(key);
    }
    parent = key;
  }
  transfer.outcomes = std::move(outcomes);
  if (missing.empty()) return transfer.put_done(std::move(transfer.outcomes));

  transfer.session = open_session();
  const auto slots = reserve(transfer.session, transfer_lease, wanted.space, missing, 0);
  transfer.parts.resize(slots.size());
  const TransferId id = next_transfer_++;
  Transfer& running = transfers_.emplace(id, std::move(transfer)).first->second;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    TransferPart& part = running.parts[i];
    part.slot = device_.find(slots[i]);
    puts_by_key_[part.key] = id;
    copy_part(id, i, bytes_of(*part.slot).data(), running.put.sources[part.index]);
  }
  if (behind != 0) transfers_.at(behind).followers.push_back(id);
  if (slots.empty()) end_put(id);
}

TransferId TieredCache::Impl::get(GetRequest request, const AcquireOptions& options,
                                  GetCallback done) {
  const TransferId id = next_transfer_++;
  Transfer& transfer = transfers_[id];
  transfer.session = open_session();
  transfer.get = std::move(request);
  transfer.get_done = std::move(done);
  transfer.acquiring = true;
  const SessionId session = transfer.session;
  const std::vector<BlockKey> keys = transfer.get.keys;
  acquire(session, transfer_lease, transfer.get.space, keys, options,
          [this, id](const std::vector<AcquiredBlock>& blocks) { start_get(id, blocks); });
  return id;
}

void TieredCache::Impl::start_get(TransferId id, const std::vector<AcquiredBlock>& blocks) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) return;
  Transfer& transfer = found->second;
  transfer.acquiring = false;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    Slot* const slot = device_.find(blocks[i].slot);
    transfer.parts.push_back({.index = i, .slot = slot});
    transfer.got.push_back({blocks[i].from, slot->checksum});
  }
  for (std::size_t i = 0; i < transfer.parts.size(); ++i)
    copy_part(id, i, transfer.get.destinations[i].data(), bytes_of(*transfer.parts[i].slot));
  if (transfer.parts.empty()) finish_get(id);
}

void TieredCache::Impl::cancel_get(TransferId id) {
  const auto found = transfers_.find(id);
  if (found == transfers_.end()) return;
  found->second.get_done = nullptr;
  // Copies come to their end first.
  if (found->second.acquiring) finish_get(id);
}

void TieredCache::Impl::copy_part(TransferId id, std::size_t part, std::byte* to,
                                  std::span<const std::byte> from) {
  const Ticket ticket = new_ticket({Operation::Kind::transfer});
  copied_parts_.emplace(ticket, std::pair(id, part));
  ++transfers_.at(id).copies;
  accelerator_.copy_async(ticket, to, from);
}

void TieredCache::Impl::finish_copy(const CopyCompletion& completion) {
  const auto node = copied_parts_.extract(completion.ticket);
  const auto [id, index] = node.mapped();
  Transfer& transfer = transfers_.at(id);
  TransferPart& part = transfer.parts[index];
  --transfer.copies;
  const bool is_put = transfer.put_done != nullptr;
  const std::uint64_t expected = is_put ? transfer.put.checksums[part.index] : part.slot->checksum;
  const bool good = completion.status.ok() && completion.checksum == expected;
  if (!completion.status.ok()) ++counters(Tier::device).failures;
  if (good && is_put && !part.arrived && !accelerator_.host_accessible()) {
    // An accelerator may have taken that checksum of the source, which is not what has arrived if
    // somebody has written to it meanwhile.
    part.arrived = true;
    const Ticket ticket = new_ticket({Operation::Kind::transfer});
    copied_parts_.emplace(ticket, node.mapped());
    ++transfer.copies;
    accelerator_.checksum_async(ticket, bytes_of(*part.slot));
    return;
  }
  part.good = good;
  // Either the block is wrong, or a client has written to where it was copied to: look.
  if (!is_put && completion.status.ok() && !good && part.slot->state == SlotState::copy &&
      !part.slot->verifying)
    start_check(*part.slot);
  if (transfer.copies > 0) return;
  if (is_put)
    end_put(id);
  else
    finish_get(id);
}

void TieredCache::Impl::end_put(TransferId id) {
  std::vector<TransferId> ended{id};
  for (std::size_t i = 0; i < ended.size(); ++i) {
    const auto found = transfers_.find(ended[i]);
    if (found == transfers_.end() || found->second.copies > 0) continue;
    // Its turn comes with the end of that one.
    if (transfers_.contains(found->second.behind)) continue;
    ended.insert(ended.end(), found->second.followers.begin(), found->second.followers.end());
    finish_put(ended[i]);
  }
}

void TieredCache::Impl::finish_put(TransferId id) {
  auto node = transfers_.extract(id);
  Transfer& transfer = node.mapped();
  std::vector<SealRequest> seals;
  std::vector<const TransferPart*> sealed;
  const std::size_t block_tokens = catalog_.space(transfer.put.space)->descriptor.block_tokens;
  for (const TransferPart& part : transfer.parts) {
    if (const auto own = puts_by_key_.find(part.key);
        own != puts_by_key_.end() && own->second == id)
      puts_by_key_.erase(own);
    if (!part.good) {
      transfer.outcomes[part.index] = PutOutcome::refused;
      continue;
    }
    const auto begin =
        transfer.put.tokens.begin() + static_cast<std::ptrdiff_t>(part.index * block_tokens);
    seals.push_back({.slot = part.slot->offset,
                     .parent = part.parent,
                     .tokens = {begin, begin + static_cast<std::ptrdiff_t>(block_tokens)},
                     .checksum = transfer.put.checksums[part.index]});
    sealed.push_back(&part);
  }
  const auto results = seal(transfer.session, transfer_lease, seals);
  for (std::size_t i = 0; i < results.size(); ++i) {
    PutOutcome& outcome = transfer.outcomes[sealed[i]->index];
    switch (results[i]) {
      case SealOutcome::sealed:
        outcome = PutOutcome::stored;
        sealed[i]->slot->verified = true;
        break;
      case SealOutcome::duplicate:
        outcome = PutOutcome::present;
        break;
      case SealOutcome::invalid:
        outcome = draining_ ? PutOutcome::no_room : PutOutcome::unreachable;
        break;
    }
  }
  end_session(transfer.session);
  transfer.put_done(std::move(transfer.outcomes));
}

void TieredCache::Impl::finish_get(TransferId id) {
  auto node = transfers_.extract(id);
  Transfer& transfer = node.mapped();
  const auto bad = std::ranges::find(transfer.parts, false, &TransferPart::good);
  transfer.got.resize(static_cast<std::size_t>(bad - transfer.parts.begin()));
  end_session(transfer.session);
  if (transfer.get_done) transfer.get_done(std::move(transfer.got));
}

}  // namespace terrace::storage
