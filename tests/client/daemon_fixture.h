// A real daemon and clients of it, with blocks whose bytes tell which block they are.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/operator.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"

namespace terrace::client {

class DaemonFixture : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds patience{60};
  static constexpr std::uint32_t block_tokens = 32;
  static constexpr std::size_t block_bytes = 64 << 10;

  static Deadline soon() { return Deadline::clock::now() + patience; }

  void start_daemon(std::vector<std::string> settings = {}) {
    start_daemon_with_file("", std::move(settings));
  }
  void start_daemon_with_file(const std::string& config, std::vector<std::string> settings = {}) {
    settings.insert(settings.begin(), {"device.capacity=\"32MiB\"", "arena.slab=\"4MiB\"",
                                       "disk.capacity=\"64MiB\""});
    daemon_ = std::make_unique<test_support::DaemonProcess>(
        test_support::DaemonOptions{.program = std::string(TERRACE_BIN_DIR) + "/terraced",
                                    .directory = directory_.path(),
                                    .settings = std::move(settings),
                                    .config = config});
    const Status status = daemon_->start();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  test_support::DaemonProcess& daemon() { return *daemon_; }
  std::string socket_path() const { return directory_.file("terraced.sock"); }
  const test_support::TempDir& directory() const { return directory_; }

  std::unique_ptr<Client> start_client() {
    ClientOptions options;
    options.socket_path = socket_path();
    options.client_name = "test";
    return Client::start(std::move(options));
  }

  std::unique_ptr<Client> connected_client() {
    auto client = start_client();
    const Status status = client->wait_connected(soon());
    EXPECT_TRUE(status.ok()) << status.message();
    return client;
  }

  static SpaceDescriptor descriptor() {
    SpaceDescriptor space;
    space.model_digest.fill(7);
    space.numerics_id = "test";
    space.kv_dtype = "bf16";
    space.layout_id = "cpu-tile32";
    space.block_tokens = block_tokens;
    space.block_bytes = block_bytes;
    space.label = "test model";
    return space;
  }

  static std::vector<Token> prompt(std::size_t blocks, Token first = 1) {
    std::vector<Token> tokens(blocks * block_tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<Token>(i);
    return tokens;
  }

  static std::vector<BlockKey> keys_of(const Space& space, std::span<const Token> tokens) {
    return derive_block_keys(space.digest(), tokens, block_tokens);
  }

  // The bytes of a block are made from its key.
  static void fill(const Slot& slot, const BlockKey& key) {
    for (std::size_t at = 0; at < block_bytes; at += key.bytes.size())
      std::memcpy(slot.address + at, key.bytes.data(), key.bytes.size());
  }
  static bool holds(const Slot& slot, const BlockKey& key) {
    for (std::size_t at = 0; at < block_bytes; at += key.bytes.size())
      if (std::memcmp(slot.address + at, key.bytes.data(), key.bytes.size()) != 0) return false;
    return true;
  }

  static std::vector<SealBlock> seal_blocks(const Space& space, std::span<const Token> tokens,
                                            std::span<const BlockKey> keys,
                                            std::span<const Slot> slots) {
    std::vector<SealBlock> blocks;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const auto own = tokens.subspan(i * block_tokens, block_tokens);
      blocks.push_back({slots[i], i == 0 ? space.digest() : keys[i - 1], {own.begin(), own.end()}});
    }
    return blocks;
  }

  // Puts a prompt into the cache, and holds nothing of it.
  static void store(Space& space, std::span<const Token> tokens) {
    const auto keys = keys_of(space, tokens);
    const LeaseId lease = space.new_lease();
    const auto slots = space.reserve(lease, keys, 0, soon());
    ASSERT_TRUE(slots.has_value()) << slots.error().message();
    ASSERT_EQ(slots->size(), keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) fill((*slots)[i], keys[i]);
    space.seal(lease, seal_blocks(space, tokens, keys, *slots));
    space.release(lease);
    ASSERT_TRUE(space.flush(soon()).ok());
  }

  nlohmann::json stats() {
    const auto text = fetch_stats_json(socket_path(), soon());
    EXPECT_TRUE(text.has_value()) << text.error().message();
    return nlohmann::json::parse(text.value_or("{}"));
  }
  bool stats_become(const std::string& name, std::uint64_t value) {
    return test_support::wait_until([&] { return stats().at(name) == value; }, patience);
  }

 private:
  test_support::TempDir directory_;
  std::unique_ptr<test_support::DaemonProcess> daemon_;
};

}  // namespace terrace::client
