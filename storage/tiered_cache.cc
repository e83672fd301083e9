#include "storage/tiered_cache.h"

#include "storage/arena/memory_file.h"
#include "storage/cache/impl.h"

namespace terrace::storage {

Result<std::unique_ptr<TieredCache>> TieredCache::create(const CacheOptions& options,
                                                         Accelerator& accelerator,
                                                         std::unique_ptr<DiskTier> disk,
                                                         const Clock& clock) {
  auto device = accelerator.allocate(options.device_capacity_bytes);
  if (!device) return error(device.error());
  if (!(*device)->host_accessible())
    return error(StatusCode::unimplemented, "device memory that the CPU cannot access");
  std::unique_ptr<DeviceMemory> host;
  if (options.host_capacity_bytes > 0) {
    auto memory = MemoryFile::create("terrace-host", options.host_capacity_bytes,
                                     MemoryFile::Clients::read_only);
    if (!memory) return error(memory.error().with_context("host arena"));
    host = std::move(*memory);
  }
  auto impl = std::make_unique<Impl>(options, accelerator, std::move(disk), clock,
                                     std::move(*device), std::move(host));
  impl->recover();
  return std::unique_ptr<TieredCache>(new TieredCache(std::move(impl)));
}

TieredCache::TieredCache(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TieredCache::~TieredCache() = default;

void TieredCache::set_wake(std::function<void()> wake) { impl_->set_wake(std::move(wake)); }
void TieredCache::run_completions() { impl_->run_completions(); }
void TieredCache::tick() { impl_->tick(); }
std::optional<std::int64_t> TieredCache::next_deadline_ns() const {
  return impl_->flights().next_limit_ns();
}
void TieredCache::run_deadlines() { impl_->run_deadlines(); }

Result<SpaceId> TieredCache::open_space(const SpaceDescriptor& descriptor) {
  return impl_->open_space(descriptor);
}

const SpaceDescriptor* TieredCache::space(SpaceId id) const {
  const SpaceEntry* entry = impl_->catalog().space(id);
  return entry ? &entry->descriptor : nullptr;
}

std::vector<SpaceDescriptor> TieredCache::spaces() const {
  std::vector<SpaceDescriptor> spaces;
  for (const auto& entry : impl_->catalog().spaces()) spaces.push_back(entry->descriptor);
  return spaces;
}

SessionId TieredCache::open_session() { return impl_->open_session(); }
void TieredCache::abandon_session(SessionId session) { impl_->abandon_session(session); }
void TieredCache::end_session(SessionId session) { impl_->end_session(session); }

MatchResult TieredCache::match(SpaceId space, std::span<const BlockKey> keys,
                               std::span<const Token> tokens) const {
  return impl_->match(space, keys, tokens);
}

void TieredCache::acquire(SessionId session, LeaseId lease, SpaceId space,
                          std::span<const BlockKey> keys, const AcquireOptions& options,
                          AcquireCallback done) {
  impl_->acquire(session, lease, space, keys, options, std::move(done));
}

std::vector<SlotOffset> TieredCache::reserve(SessionId session, LeaseId lease, SpaceId space,
                                             std::span<const BlockKey> keys, std::size_t unnamed) {
  return impl_->reserve(session, lease, space, keys, unnamed);
}

std::optional<std::vector<SlotOffset>> TieredCache::claim(SessionId session, LeaseId lease,
                                                          SpaceId space,
                                                          std::span<const BlockKey> keys,
                                                          std::size_t unnamed) {
  return impl_->claim(session, lease, space, keys, unnamed);
}

std::vector<SealOutcome> TieredCache::seal(SessionId session, LeaseId lease,
                                           std::span<const SealRequest> blocks) {
  return impl_->seal(session, lease, blocks);
}

void TieredCache::release(SessionId session, LeaseId lease) { impl_->release(session, lease); }

void TieredCache::drain(std::function<void()> done) { impl_->drain(std::move(done)); }
std::size_t TieredCache::drain_blocks_left() const { return impl_->drain_blocks_left(); }

int TieredCache::device_arena_fd() const { return impl_->device().memory().exported_fd(); }
std::uint64_t TieredCache::device_arena_bytes() const { return impl_->device().memory().size(); }
int TieredCache::host_arena_fd() const {
  return impl_->host() ? impl_->host()->memory().exported_fd() : -1;
}
std::uint64_t TieredCache::host_arena_bytes() const {
  return impl_->host() ? impl_->host()->memory().size() : 0;
}

CacheStats TieredCache::stats() const { return impl_->stats(); }
BlockPage TieredCache::list(const BlockKey& from, std::size_t limit) const {
  return impl_->list(from, limit);
}
Status TieredCache::check_invariants() const { return impl_->check_invariants(); }

}  // namespace terrace::storage
