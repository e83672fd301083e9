#include "cache_daemon/session.h"

#include <kj/debug.h>

#include <algorithm>
#include <utility>

#include "cache_daemon/limit_errors.h"
#include "cache_daemon/limits.h"

namespace terrace::daemon {

Session::Session(storage::TieredCache& cache, std::string client_name,
                 std::optional<std::string> tenant, const config::DaemonLimits& limits)
    : cache_(cache),
      id_(cache.open_session()),
      client_name_(std::move(client_name)),
      tenant_(std::move(tenant)),
      limits_(limits) {}

void Session::require_alive() const { KJ_REQUIRE(!ended_, "this session has ended"); }

void Session::admit(storage::LeaseId lease, std::size_t blocks) {
  require_alive();
  const auto found = leases_.find(lease);
  if (found == leases_.end())
    require_within("limits.max_leases_per_session", limits_.max_leases_per_session,
                   leases_.size() + 1, "leases");
  const std::size_t before = found == leases_.end() ? 0 : found->second;
  require_within("the most blocks of a lease", max_blocks_per_lease, before + blocks, "blocks");
  leases_[lease] = before + blocks;
}

std::size_t Session::blocks() const {
  std::size_t sum = 0;
  for (const auto& [lease, blocks] : leases_) sum += blocks;
  return sum;
}

Session::Acquired Session::acquire(storage::LeaseId lease, storage::SpaceId space,
                                   std::span<const BlockKey> keys,
                                   const storage::AcquireOptions& options) {
  require_within("limits.max_waiting_acquires_per_session",
                 limits_.max_waiting_acquires_per_session, pending_.size() + 1, "acquires");
  admit(lease, keys.size());
  const std::uint64_t ticket = next_ticket_++;
  pending_.emplace(ticket, PendingAcquire{.lease = lease, .at_once = {}, .fulfiller = {}});
  cache_.acquire(id_, lease, space, keys, options,
                 [weak = weak_from_this(), ticket](std::vector<storage::AcquiredBlock> blocks) {
                   const auto self = weak.lock();
                   if (!self) return;
                   const auto found = self->pending_.find(ticket);
                   if (found == self->pending_.end()) return;
                   if (found->second.fulfiller.get() == nullptr) {
                     found->second.at_once = std::move(blocks);
                     return;
                   }
                   found->second.fulfiller->fulfill(std::move(blocks));
                   self->pending_.erase(found);
                 });
  const auto pending = pending_.find(ticket);
  if (pending->second.at_once) {
    Acquired acquired{std::move(pending->second.at_once), nullptr};
    pending_.erase(pending);
    return acquired;
  }
  auto later = kj::newPromiseAndFulfiller<std::vector<storage::AcquiredBlock>>();
  pending->second.fulfiller = kj::mv(later.fulfiller);
  return {std::nullopt, kj::mv(later.promise)};
}

std::vector<storage::SlotOffset> Session::reserve(storage::LeaseId lease, storage::SpaceId space,
                                                  std::span<const BlockKey> keys,
                                                  std::size_t unnamed) {
  admit(lease, keys.size() + unnamed);
  return cache_.reserve(id_, lease, space, keys, unnamed);
}

std::optional<std::vector<storage::SlotOffset>> Session::claim(storage::LeaseId lease,
                                                               storage::SpaceId space,
                                                               std::span<const BlockKey> keys,
                                                               std::size_t unnamed) {
  admit(lease, keys.size() + unnamed);
  return cache_.claim(id_, lease, space, keys, unnamed);
}

std::vector<storage::SealOutcome> Session::seal(storage::LeaseId lease,
                                                std::span<const storage::SealRequest> blocks) {
  require_alive();
  return cache_.seal(id_, lease, blocks);
}

void Session::release(storage::LeaseId lease) {
  require_alive();
  if (leases_.erase(lease) == 0) return;
  for (auto next = pending_.begin(); next != pending_.end();) {
    if (next->second.lease == lease) {
      next->second.fulfiller->fulfill({});
      next = pending_.erase(next);
    } else {
      ++next;
    }
  }
  cache_.release(id_, lease);
}

std::shared_ptr<StagingRegion> Session::open_staging(std::uint64_t bytes,
                                                     std::uint64_t limit_bytes) {
  require_alive();
  KJ_REQUIRE(!staging_, "this session has a staging region already");
  if (limit_bytes == 0)
    kj::throwFatalException(KJ_EXCEPTION(OVERLOADED, "limits.staging_per_session allows none"));
  auto region = StagingRegion::create(std::min(bytes, limit_bytes));
  if (!region) kj::throwFatalException(KJ_EXCEPTION(OVERLOADED, region.error().message().c_str()));
  staging_ = std::move(*region);
  return staging_;
}

const std::shared_ptr<StagingRegion>& Session::staging() const {
  require_alive();
  KJ_REQUIRE(staging_ != nullptr, "this session has no staging region");
  return staging_;
}

void Session::admit_transfer() {
  require_alive();
  if (transfers_ >= max_transfers_per_session)
    kj::throwFatalException(
        KJ_EXCEPTION(OVERLOADED, "too many puts and gets of this session are under way already"));
}

kj::Promise<std::vector<PutOutcome>> Session::put(storage::PutRequest request) {
  admit_transfer();
  auto paf = kj::newPromiseAndFulfiller<std::vector<PutOutcome>>();
  ++transfers_;
  // A function must be copyable.
  auto fulfiller = std::make_shared<decltype(paf.fulfiller)>(kj::mv(paf.fulfiller));
  // Counted until its copies are done, whether somebody waits for them or not.
  cache_.put(std::move(request),
             [self = shared_from_this(), fulfiller](std::vector<PutOutcome> outcomes) {
               --self->transfers_;
               (*fulfiller)->fulfill(std::move(outcomes));
             });
  return kj::mv(paf.promise);
}

kj::Promise<std::vector<storage::GotBlock>> Session::get(storage::GetRequest request,
                                                         const storage::AcquireOptions& options) {
  admit_transfer();
  auto paf = kj::newPromiseAndFulfiller<std::vector<storage::GotBlock>>();
  auto fulfiller = std::make_shared<decltype(paf.fulfiller)>(kj::mv(paf.fulfiller));
  ++transfers_;
  const storage::TransferId id =
      cache_.get(std::move(request), options, [fulfiller](std::vector<storage::GotBlock> blocks) {
        (*fulfiller)->fulfill(std::move(blocks));
      });
  // At its end, or when nobody waits any more.
  return paf.promise.attach(kj::defer([self = shared_from_this(), id] {
    --self->transfers_;
    self->cache_.cancel_get(id);
  }));
}

void Session::admit_space(const BlockKey& digest) {
  require_alive();
  if (spaces_.contains(digest)) return;
  require_within("limits.max_spaces_per_session", limits_.max_spaces_per_session,
                 spaces_.size() + 1, "spaces");
  spaces_.insert(digest);
}

void Session::abandon() {
  pending_.clear();
  staging_.reset();  // copies under way keep it
  if (!ended_) cache_.abandon_session(id_);
}

void Session::end() {
  pending_.clear();
  if (std::exchange(ended_, true)) return;
  staging_.reset();
  leases_.clear();
  cache_.end_session(id_);
}

}  // namespace terrace::daemon
