#include "storage/tiered_cache.h"

#include <algorithm>

#include "storage/arena/memory_file.h"
#include "storage/cache/impl.h"
#include "storage/device/staging.h"

namespace terrace::storage {

namespace {

// The arena of a tier that is not there yet.
class NoMemory final : public DeviceMemory {
 public:
  std::size_t size() const override { return 0; }
  std::byte* data() const override { return nullptr; }
  bool host_accessible() const override { return true; }
  int exported_fd() const override { return -1; }
};

// Host memory that the device knows of as long as it is there.
class RegisteredMemory final : public DeviceMemory {
 public:
  RegisteredMemory(std::unique_ptr<DeviceMemory> memory, Accelerator& accelerator)
      : memory_(std::move(memory)), accelerator_(accelerator) {}
  ~RegisteredMemory() override {
    accelerator_.unregister_host_memory({memory_->data(), memory_->size()});
  }
  std::size_t size() const override { return memory_->size(); }
  std::byte* data() const override { return memory_->data(); }
  bool host_accessible() const override { return memory_->host_accessible(); }
  int exported_fd() const override { return memory_->exported_fd(); }

 private:
  std::unique_ptr<DeviceMemory> memory_;
  Accelerator& accelerator_;
};

}  // namespace

Result<std::unique_ptr<TieredCache>> TieredCache::create(const CacheOptions& options,
                                                         Accelerator& accelerator,
                                                         std::unique_ptr<DiskTier> disk,
                                                         const Clock& clock,
                                                         std::unique_ptr<RemoteTier> remote) {
  std::unique_ptr<TieredCache> cache(new TieredCache());
  Accelerator* used = &accelerator;
  if (!accelerator.host_accessible()) {
    cache->staging_ = std::make_unique<StagingAccelerator>(accelerator);
    used = cache->staging_.get();
    if (disk) {
      auto staged = std::make_unique<StagedDisk>(std::move(disk), *cache->staging_);
      cache->staged_disk_ = staged.get();
      disk = std::move(staged);
    }
  }
  std::unique_ptr<DeviceMemory> device;
  if (options.device_capacity_bytes > 0) {
    auto allocated = used->allocate(options.device_capacity_bytes);
    if (!allocated) return error(allocated.error());
    device = std::move(*allocated);
  }
  std::unique_ptr<DeviceMemory> host;
  if (options.host_capacity_bytes > 0) {
    auto memory = MemoryFile::create("terrace-host", options.host_capacity_bytes,
                                     MemoryFile::Clients::read_only);
    if (!memory) return error(memory.error().with_context("host arena"));
    host = std::move(*memory);
    cache->host_registration_ = used->register_host_memory({host->data(), host->size()});
    if (cache->host_registration_.ok())
      host = std::make_unique<RegisteredMemory>(std::move(host), *used);
  }
  cache->impl_ = std::make_unique<Impl>(options, *used, std::move(disk), std::move(remote), clock,
                                        std::make_unique<NoMemory>(), std::move(host));
  if (device)
    if (Status status = cache->attach_device(std::move(device)); !status.ok())
      return error(std::move(status));
  cache->impl_->recover();
  return cache;
}

TieredCache::TieredCache() = default;
TieredCache::~TieredCache() = default;

Status TieredCache::attach_device(std::unique_ptr<DeviceMemory> memory) {
  const std::span<const std::byte> range(memory->data(), memory->size());
  if (Status status = impl_->attach_device(std::move(memory)); !status.ok()) return status;
  if (staged_disk_) staged_disk_->set_device_memory(range);
  return {};
}

const Status& TieredCache::host_registration() const { return host_registration_; }

void TieredCache::set_quotas(const std::vector<TenantQuota>& quotas) { impl_->set_quotas(quotas); }

void TieredCache::set_wake(std::function<void()> wake) { impl_->set_wake(std::move(wake)); }
void TieredCache::run_completions() { impl_->run_completions(); }
void TieredCache::tick() { impl_->tick(); }
std::optional<std::int64_t> TieredCache::next_deadline_ns() const {
  return impl_->next_deadline_ns();
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

std::size_t TieredCache::spaces_of(const std::string& tenant) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(impl_->catalog().spaces(),
                            [&](const auto& entry) { return entry->descriptor.tenant == tenant; }));
}

SessionId TieredCache::open_session() { return impl_->open_session(); }
void TieredCache::abandon_session(SessionId session) { impl_->abandon_session(session); }
void TieredCache::end_session(SessionId session) { impl_->end_session(session); }

MatchResult TieredCache::match(SpaceId space, std::span<const BlockKey> keys,
                               std::span<const Token> tokens) const {
  return impl_->match(space, keys, tokens);
}

void TieredCache::look_up(SpaceId space, std::span<const BlockKey> keys,
                          std::span<const Token> tokens, std::int64_t deadline_ns,
                          std::function<void()> done) {
  impl_->look_up(space, keys, tokens, deadline_ns, std::move(done));
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

void TieredCache::put(PutRequest request, PutCallback done) {
  impl_->put(std::move(request), std::move(done));
}
TransferId TieredCache::get(GetRequest request, const AcquireOptions& options, GetCallback done) {
  return impl_->get(std::move(request), options, std::move(done));
}
void TieredCache::cancel_get(TransferId id) { impl_->cancel_get(id); }

Result<PinInfo> TieredCache::pin(const BlockKey& key, const PinOptions& options) {
  return impl_->pin(key, options);
}
Status TieredCache::unpin(const BlockKey& key) { return impl_->unpin(key); }
std::vector<PinInfo> TieredCache::pins() const { return impl_->pins(); }

std::uint64_t TieredCache::drop_space(const BlockKey& digest, std::function<void(Status)> done) {
  return impl_->drop_space(digest, std::move(done));
}

void TieredCache::evict_prefix(const BlockKey& key,
                               std::function<void(Result<std::uint64_t>)> done) {
  impl_->evict_prefix(key, std::move(done));
}

std::optional<BlockDetails> TieredCache::inspect(const BlockKey& key) const {
  return impl_->inspect(key);
}

void TieredCache::read_block(const BlockKey& key, std::function<void(Result<BlockPayload>)> done) {
  impl_->read_block(key, std::move(done));
}

void TieredCache::check_copy(const BlockKey& key, Tier tier, bool remove,
                             std::function<void(CopyCheck)> done) {
  impl_->check_copy(key, tier, remove, std::move(done));
}
ImportResult TieredCache::check_import(const RecordHeader& header) const {
  return impl_->check_import(header);
}
void TieredCache::import_block(const RecordHeader& header, std::shared_ptr<const std::byte> payload,
                               std::function<void(ImportResult)> done) {
  impl_->import_block(header, std::move(payload), std::move(done));
}
void TieredCache::set_max_ages(std::vector<SpaceAge> ages) { impl_->set_max_ages(std::move(ages)); }

std::optional<SpaceId> TieredCache::find_space(const BlockKey& digest) const {
  const SpaceEntry* const space = impl_->catalog().space(digest);
  return space ? std::optional<SpaceId>(space->id) : std::nullopt;
}

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

std::optional<BlockKey> TieredCache::find_tails(const BlockKey& from, std::size_t looks,
                                                std::size_t limit,
                                                std::vector<PrefixTail>& latest) const {
  return impl_->find_tails(from, looks, limit, latest);
}
std::vector<PrefixRun> TieredCache::prefix_runs(std::span<const PrefixTail> tails,
                                                std::size_t max_blocks) const {
  return impl_->prefix_runs(tails, max_blocks);
}
Status TieredCache::check_invariants() const { return impl_->check_invariants(); }

}  // namespace terrace::storage
