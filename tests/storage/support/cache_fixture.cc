#include "tests/storage/support/cache_fixture.h"

#include <algorithm>

#include "core/checksum.h"

namespace terrace::storage {

SpaceDescriptor CacheFixture::descriptor(const std::string& name, std::uint64_t block_bytes) {
  SpaceDescriptor space;
  space.model_digest = sha256({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()});
  space.numerics_id = "test";
  space.kv_dtype = "bf16";
  space.layout_id = "test";
  space.block_tokens = test_block_tokens;
  space.block_bytes = block_bytes;
  space.label = name;
  return space;
}

void CacheFixture::start(const Sizes& sizes) {
  stop();
  CacheOptions options;
  options.device_capacity_bytes = sizes.device_blocks * test_block_bytes;
  options.host_capacity_bytes = sizes.host_blocks * test_block_bytes;
  options.slab_bytes = sizes.slab_blocks * test_block_bytes;
  options.clean_fraction = sizes.clean_fraction;
  options.clean_low_fraction =
      sizes.clean_low_fraction < 0 ? sizes.clean_fraction : sizes.clean_low_fraction;
  options.pin_capacity_bytes = sizes.pinned_blocks * test_block_bytes;
  options.tenants = sizes.tenants;
  options.host_write = sizes.host_write;
  options.disk_write = sizes.disk_write;
  options.write_behind_hour_bytes = sizes.hour_writes * (test_block_bytes + 4096);
  options.write_behind_day_bytes = sizes.day_writes * (test_block_bytes + 4096);
  options.device_verify = sizes.verify;
  options.eviction = sizes.eviction;
  std::unique_ptr<FakeDisk> disk;
  if (sizes.disk_blocks > 0) {
    on_disk_.capacity_bytes = sizes.disk_blocks * (test_block_bytes + 4096);
    disk = std::make_unique<FakeDisk>(on_disk_);
  }
  disk_ = disk.get();
  options.redis_write = sizes.redis_write;
  std::unique_ptr<FakeRemote> remote;
  if (sizes.remote) remote = std::make_unique<FakeRemote>(in_redis_);
  remote_ = remote.get();
  accelerator_.set_host_accessible(sizes.host_accessible);
  auto cache =
      TieredCache::create(options, accelerator_, std::move(disk), clock_, std::move(remote));
  ASSERT_TRUE(cache) << cache.error().to_string();
  cache_ = std::move(*cache);
  auto mapping = SharedMapping::map(cache_->device_arena_fd(), cache_->device_arena_bytes(),
                                    SharedMapping::Access::read_write);
  ASSERT_TRUE(mapping) << mapping.error().to_string();
  device_ = std::move(*mapping);
  const auto space = cache_->open_space(descriptor());
  ASSERT_TRUE(space) << space.error().to_string();
  space_ = *space;
  digest_ = descriptor().digest();
}

void CacheFixture::stop() {
  cache_.reset();
  disk_ = nullptr;
  remote_ = nullptr;
}

Prompt CacheFixture::prompt(int head, std::size_t blocks, int tail, std::size_t shared) const {
  Prompt made;
  made.space = digest_;
  for (std::size_t i = 0; i < blocks * test_block_tokens; ++i) {
    const bool own = i / test_block_tokens >= shared;
    made.tokens.push_back(
        static_cast<Token>(head * 100'000 + (own ? tail * 1'000 : 0) + static_cast<int>(i)));
  }
  made.keys = derive_block_keys(digest_, made.tokens, test_block_tokens);
  return made;
}

void CacheFixture::finish_everything() {
  for (;;) {
    cache_->run_completions();
    if (disk_ && !disk_->under_way().empty()) {
      disk_->complete(0);
    } else if (remote_ && !remote_->under_way().empty()) {
      remote_->complete(0);
    } else if (accelerator_.under_way() > 0) {
      accelerator_.complete(0);
    } else {
      return;
    }
  }
}

void CacheFixture::finish_disk(std::size_t which, const Status& failure) {
  disk_->complete(which, failure);
  cache_->run_completions();
}

void CacheFixture::finish_remote(std::size_t which, const Status& failure) {
  remote_->complete(which, failure);
  cache_->run_completions();
}

void CacheFixture::finish_copy(std::size_t which, ManualAccelerator::Fate fate) {
  accelerator_.complete(which, fate);
  cache_->run_completions();
}

void CacheFixture::tick(std::int64_t ms) {
  clock_.advance_ms(ms);
  cache_->tick();
}

std::vector<SealOutcome> CacheFixture::seal_one(SessionId session, LeaseId lease, SlotOffset slot,
                                                const Prompt& prompt, std::size_t index) {
  SealRequest request;
  request.slot = slot;
  request.parent = prompt.parent(index);
  request.tokens = prompt.block(index);
  request.checksum = payload_checksum(contents(prompt.keys[index]));
  return cache_->seal(session, lease, std::span(&request, 1));
}

std::size_t CacheFixture::put(SessionId session, LeaseId lease, const Prompt& prompt,
                              std::size_t from, std::size_t count) {
  const auto keys = std::span(prompt.keys).subspan(from, count);
  const auto slots = cache_->reserve(session, lease, space_, keys, 0);
  std::size_t sealed = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    std::ranges::copy(contents(keys[i]), slot_bytes(slots[i]).begin());
    sealed += seal_one(session, lease, slots[i], prompt, from + i)[0] == SealOutcome::sealed;
  }
  return sealed;
}

std::size_t CacheFixture::put(const Prompt& prompt, std::size_t from, std::size_t count) {
  const SessionId session = cache_->open_session();
  const std::size_t sealed = put(session, 1, prompt, from, count);
  cache_->end_session(session);
  return sealed;
}

std::vector<AcquiredBlock> CacheFixture::get(SessionId session, LeaseId lease,
                                             std::span<const BlockKey> keys,
                                             const AcquireOptions& options) {
  std::vector<AcquiredBlock> got;
  int calls = 0;
  cache_->acquire(session, lease, space_, keys, options, [&](std::vector<AcquiredBlock> blocks) {
    got = std::move(blocks);
    ++calls;
  });
  finish_everything();
  EXPECT_EQ(calls, 1);
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(holds(got[i].slot, keys[i])) << "wrong bytes for block " << i;
  return got;
}

std::size_t CacheFixture::get(std::span<const BlockKey> keys) {
  const SessionId session = cache_->open_session();
  const std::size_t got = get(session, 1, keys).size();
  cache_->end_session(session);
  return got;
}

std::vector<std::byte> CacheFixture::contents(const BlockKey& key, std::uint64_t bytes) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    made[i] = static_cast<std::byte>(key.bytes[i % key.bytes.size()] + i / 256);
  return made;
}

bool CacheFixture::holds(SlotOffset slot, const BlockKey& key) const {
  return std::ranges::equal(slot_bytes(slot), contents(key));
}

}  // namespace terrace::storage
