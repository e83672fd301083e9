#include "tests/storage/disk/store_harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "core/record.h"
#include "core/unique_fd.h"

namespace terrace::storage {

TempDirectory::TempDirectory() {
  std::string name = ::testing::TempDir() + "/terrace-disk-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = name;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

SpaceDescriptor test_space(std::uint64_t block_bytes, const std::string& model) {
  SpaceDescriptor space;
  std::copy(model.begin(), model.end(), space.model_digest.begin());
  space.numerics_id = "test";
  space.kv_dtype = "bf16";
  space.layout_id = "cpu-tile32";
  space.block_bytes = block_bytes;
  space.label = "a model for tests";
  return space;
}

namespace {

TestBlock make_block(const BlockKey& space, const BlockKey& parent, std::uint64_t seed,
                     std::size_t bytes, bool noisy) {
  TestBlock block;
  std::mt19937_64 random(seed);
  block.space = space;
  block.parent = parent;
  for (int i = 0; i < 32; ++i) block.tokens.push_back(static_cast<Token>(random() % 128000));
  block.key = derive_block_key(parent, block.tokens);
  block.bytes = bytes;
  block.buffer.ensure(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    block.buffer.data()[i] = static_cast<std::byte>(noisy        ? random()
                                                    : i % 2 == 1 ? 0x3f
                                                                 : (seed & 0xf0) + (random() & 3));
  return block;
}

}  // namespace

TestBlock test_block(const SpaceDescriptor& space, std::uint64_t seed, std::size_t bytes,
                     bool noisy) {
  return make_block(space.digest(), space.digest(), seed, bytes, noisy);
}

TestBlock test_child(const TestBlock& parent, std::uint64_t seed, std::size_t bytes) {
  return make_block(parent.space, parent.key, seed, bytes, true);
}

DiskWrite write_of(const TestBlock& block, Ticket ticket, std::uint64_t recency) {
  DiskWrite write;
  write.ticket = ticket;
  write.space = block.space;
  write.key = block.key;
  write.parent = block.parent;
  write.tokens = block.tokens;
  write.payload = block.payload();
  write.payload_checksum = payload_checksum(block.payload());
  write.recency = recency;
  return write;
}

DiskRead read_of(const TestBlock& block, Ticket ticket, std::span<std::byte> destination) {
  return {ticket, block.space, block.key, block.parent, block.tokens, destination};
}

TierHarness::TierHarness(std::unique_ptr<DiskTier> tier) : tier_(std::move(tier)) {
  tier_->set_notify([signal = signal_] {
    {
      const std::lock_guard lock(signal->mutex);
      signal->set = true;
    }
    signal->changed.notify_all();
  });
}

DiskCompletion TierHarness::wait(Ticket ticket) {
  for (;;) {
    std::vector<DiskCompletion> arrived;
    tier_->take_completions(arrived);
    for (DiskCompletion& one : arrived) {
      EXPECT_FALSE(completed_.contains(one.ticket)) << "completed twice";
      completed_[one.ticket] = std::move(one);
    }
    if (const auto at = completed_.find(ticket); at != completed_.end()) {
      DiskCompletion completion = std::move(at->second);
      completed_.erase(at);
      return completion;
    }
    std::unique_lock lock(signal_->mutex);
    signal_->changed.wait(lock, [this] { return signal_->set; });
    signal_->set = false;
  }
}

DiskCompletion TierHarness::write(const TestBlock& block, std::uint64_t recency) {
  const Ticket ticket = next_ticket();
  tier_->write(write_of(block, ticket, recency));
  return wait(ticket);
}

DiskCompletion TierHarness::flush() {
  const Ticket ticket = next_ticket();
  tier_->flush(ticket);
  return wait(ticket);
}

void TierHarness::erase(const TestBlock& block) {
  tier_->erase(block.key);
  EXPECT_EQ(flush().status.to_string(), "ok");
}

Status TierHarness::read(const TestBlock& block) {
  AlignedBuffer destination;
  destination.ensure(block.bytes);
  const Ticket ticket = next_ticket();
  tier_->read(read_of(block, ticket, {destination.data(), block.bytes}));
  const DiskCompletion completion = wait(ticket);
  if (completion.status.ok()) {
    EXPECT_EQ(std::memcmp(destination.data(), block.payload().data(), block.bytes), 0)
        << "wrong bytes";
    EXPECT_EQ(completion.payload_checksum, payload_checksum(block.payload()));
  }
  return completion.status;
}

std::unique_ptr<StoreHarness> open_harness(const DiskOptions& options, DiskWorld world) {
  auto store = DiskStore::open(options, std::move(world));
  if (!store) {
    ADD_FAILURE() << "open: " << store.error().to_string();
    return nullptr;
  }
  return std::make_unique<StoreHarness>(std::move(*store));
}

DiskOptions small_options(const std::string& directory) {
  DiskOptions options;
  options.directory = directory + "/disk";
  options.capacity_bytes = 16 * mib;
  options.file_bytes = 4 * mib;
  return options;
}

RecordPlace find_record(const std::string& directory, const BlockKey& key) {
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    if (!file.path().filename().string().starts_with("data-")) continue;
    for (std::uint64_t at = 0; at < file.file_size(); at += extent_unit_bytes) {
      const auto page = read_range(file.path(), at, extent_unit_bytes);
      const auto header = decode_record_header(page);
      if (header && header->key == key) return {file.path(), at};
    }
  }
  return {};
}

void overwrite(const std::string& path, std::uint64_t offset, std::span<const std::byte> bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes.size()));
  ASSERT_EQ(::fsync(fd.get()), 0);
}

std::vector<std::byte> read_range(const std::string& path, std::uint64_t offset,
                                  std::size_t bytes) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::byte> out(bytes);
  EXPECT_EQ(::pread(fd.get(), out.data(), bytes, static_cast<off_t>(offset)),
            static_cast<ssize_t>(bytes));
  return out;
}

void flip_byte(const std::string& path, std::uint64_t offset) {
  auto byte = read_range(path, offset, 1);
  byte[0] ^= std::byte{0x10};
  overwrite(path, offset, byte);
}

std::uint64_t allocated_bytes(const std::string& directory) {
  std::uint64_t sum = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(directory)) {
    struct stat status;
    // RocksDB may be removing it.
    if (::stat(file.path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
      sum += static_cast<std::uint64_t>(status.st_blocks) * 512;
  }
  return sum;
}

}  // namespace terrace::storage
