// A DiskStore in a directory of its own, driven by a test one request at a time.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/checksum.h"
#include "storage/disk/aligned_buffer.h"
#include "storage/disk/disk_store.h"

namespace terrace::storage {

// Removed, with what is in it, at the end.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  std::string path() const { return path_; }

 private:
  std::string path_;
};

SpaceDescriptor test_space(std::uint64_t block_bytes = 64 * kib, const std::string& model = "m");

// A block whose tokens, key and bytes follow from `seed`; `noisy` bytes do not compress.
struct TestBlock {
  BlockKey space, key, parent;
  std::vector<Token> tokens;
  AlignedBuffer buffer;
  std::size_t bytes = 0;

  std::span<const std::byte> payload() const { return {buffer.data(), bytes}; }
};
TestBlock test_block(const SpaceDescriptor& space, std::uint64_t seed, std::size_t bytes,
                     bool noisy = true);
// A block that follows `parent`.
TestBlock test_child(const TestBlock& parent, std::uint64_t seed, std::size_t bytes);

DiskWrite write_of(const TestBlock& block, Ticket ticket, std::uint64_t recency = 1);
DiskRead read_of(const TestBlock& block, Ticket ticket, std::span<std::byte> destination);

// Waits for completions through the tier's notify.
class TierHarness {
 public:
  explicit TierHarness(std::unique_ptr<DiskTier> tier);

  DiskTier& tier() { return *tier_; }
  DiskCompletion wait(Ticket ticket);

  // Each makes its request and waits for the completion.
  DiskCompletion write(const TestBlock& block, std::uint64_t recency = 1);
  DiskCompletion flush();
  void erase(const TestBlock& block);  // and flushes
  // Reads the block; if that succeeds its bytes are compared.
  Status read(const TestBlock& block);

  Ticket next_ticket() { return ++last_ticket_; }
  void close() { tier_.reset(); }

 private:
  struct Signal {
    std::mutex mutex;
    std::condition_variable changed;
    bool set = false;
  };
  std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::map<Ticket, DiskCompletion> completed_;
  Ticket last_ticket_ = 0;
  std::unique_ptr<DiskTier> tier_;
};

class StoreHarness : public TierHarness {
 public:
  explicit StoreHarness(std::unique_ptr<DiskStore> store) : TierHarness(std::move(store)) {}
  DiskStore& store() { return static_cast<DiskStore&>(tier()); }
};

// Opens a store; the test fails if it does not open.
std::unique_ptr<StoreHarness> open_harness(const DiskOptions& options, DiskWorld world = {});

DiskOptions small_options(const std::string& directory);

// Where in the data files a record with this key lies, as {path, offset}; an empty path if nowhere.
struct RecordPlace {
  std::string path;
  std::uint64_t offset = 0;
};
RecordPlace find_record(const std::string& directory, const BlockKey& key);
void flip_byte(const std::string& path, std::uint64_t offset);
void overwrite(const std::string& path, std::uint64_t offset, std::span<const std::byte> bytes);
std::vector<std::byte> read_range(const std::string& path, std::uint64_t offset, std::size_t bytes);
// Bytes that the file system has really allocated to the data files and to the index.
std::uint64_t allocated_bytes(const std::string& directory);

}  // namespace terrace::storage
