// export, import and verify as operators run them, against real daemons and a stopped store.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "client/cli/archive_writer.h"
#include "core/checksum.h"
#include "core/clock.h"
#include "tests/client/daemon_fixture.h"
#include "tests/integration/programs.h"

namespace terrace::integration {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class ArchiveVerbs : public client::DaemonFixture {
 protected:
  static constexpr std::size_t chain_blocks = 4;

  ProcessResult terrace(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--socket", socket_path()});
    return run_program("terrace", std::move(arguments));
  }
  json said(std::vector<std::string> arguments, int status = 0) const {
    arguments.emplace_back("--json");
    const ProcessResult result = terrace(std::move(arguments));
    EXPECT_EQ(result.status, status) << result.output << result.errors;
    return json::parse(result.output, nullptr, false);
  }

  static SpaceDescriptor model(int number) {
    SpaceDescriptor space = descriptor();
    space.model_digest.fill(static_cast<std::uint8_t>(number));
    space.label = "model " + std::to_string(number);
    return space;
  }
  static std::vector<BlockKey> keys_of_model(int number) {
    return derive_block_keys(model(number).digest(), prompt(chain_blocks), block_tokens);
  }
  // A prompt of each of two models, on the disk.
  void store_two_models() {
    const auto client = connected_client();
    for (const int number : {1, 2}) {
      const auto space = client->open_space(model(number));
      store(*space, prompt(chain_blocks));
    }
    ASSERT_TRUE(disk_has(2 * chain_blocks));
  }
  bool disk_has(std::uint64_t blocks) {
    return test_support::wait_until(
        [&] { return stats().at("tiers").at("disk").at("blocks") == blocks; }, patience);
  }
  // How many leading blocks a worker gets, each checked byte for byte.
  static std::size_t served(const std::string& socket, int number) {
    client::ClientOptions options;
    options.socket_path = socket;
    options.client_name = "reader";
    const auto client = client::Client::start(std::move(options));
    EXPECT_TRUE(client->wait_connected(soon()).ok());
    const auto space = client->open_space(model(number));
    const auto keys = keys_of_model(number);
    const auto held = space->acquire(space->new_lease(), keys, {}, soon());
    EXPECT_TRUE(held.has_value());
    for (std::size_t i = 0; held && i < held->size(); ++i)
      EXPECT_TRUE(holds((*held)[i].slot, keys[i])) << i;
    return held ? held->size() : 0;
  }

  // Where the record of a block lies: its data file and the offset in it.
  std::pair<std::string, std::uint64_t> find_on_disk(const BlockKey& key) const {
    constexpr std::size_t key_at = 96;
    for (const auto& entry : std::filesystem::directory_iterator(directory().file("data"))) {
      if (!entry.path().filename().string().starts_with("data-")) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      std::vector<char> unit(record_header_bytes);
      for (std::uint64_t at = 0; file.read(unit.data(), record_header_bytes);
           at += record_header_bytes)
        if (std::memcmp(unit.data(), "TERRBLK\n", 8) == 0 &&
            std::memcmp(unit.data() + key_at, key.bytes.data(), key.bytes.size()) == 0)
          return {entry.path(), at};
    }
    ADD_FAILURE() << "no record of " << key.hex();
    return {};
  }
  void flip_a_byte(const BlockKey& key, std::uint64_t behind) const {
    const auto [path, at] = find_on_disk(key);
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    char byte = 0;
    const auto offset = static_cast<off_t>(at + behind);
    ASSERT_EQ(::pread(fd.get(), &byte, 1, offset), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(::pwrite(fd.get(), &byte, 1, offset), 1);
    ASSERT_EQ(::fdatasync(fd.get()), 0);
  }
  static std::size_t damage_file(const std::string& path, std::size_t at) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    return at;
  }

  const std::string file_ = directory().file("blocks.terrace");
};

TEST_F(ArchiveVerbs, CarryPrefixesOfSeveralModelsToAnotherDaemon) {
  start_daemon();
  store_two_models();
  const json wrote = said({"export", file_});
  EXPECT_EQ(wrote.at("blocks"), 2 * chain_blocks);
  EXPECT_EQ(wrote.at("spaces"), 2);
  EXPECT_FALSE(std::filesystem::exists(file_ + ".part"));
  // Nobody loses a file unasked.
  EXPECT_THAT(terrace({"export", file_}).errors, HasSubstr("is there already"));

  RunningDaemon other({"arena.slab=4MiB"});
  ASSERT_TRUE(other.start().ok());
  ASSERT_EQ(other.terrace({"import", file_, "--dry-run"}).status, 0);
  auto import = other.terrace({"import", file_, "--json"});
  ASSERT_EQ(import.status, 0) << import.errors;
  json report = json::parse(import.output);
  EXPECT_EQ(report.at("imported"), 2 * chain_blocks);
  EXPECT_EQ(report.at("complete"), true);
  // A second time nothing is sent.
  report = json::parse(other.terrace({"import", file_, "--json"}).output);
  EXPECT_EQ(report.at("imported"), 0);
  EXPECT_EQ(report.at("there"), 2 * chain_blocks);
  for (const int number : {1, 2}) EXPECT_EQ(served(other.socket_path(), number), chain_blocks);
  // Durable at once, and the same when it is exported again.
  other.process().kill();
  ASSERT_TRUE(other.start().ok());
  const std::string again = directory().file("again.terrace");
  ASSERT_EQ(other.terrace({"export", again, "--space", "model 2"}).status, 0);
  const auto read_back =
      json::parse(run_program("terrace", {"import", again, "--dry-run", "--json"}).output);
  EXPECT_EQ(read_back.at("blocks"), chain_blocks);
  EXPECT_EQ(read_back.at("complete"), true);
}

TEST_F(ArchiveVerbs, GiveADaemonWithoutADiskItsBlocksInTheDeviceTier) {
  start_daemon();
  store_two_models();
  ASSERT_EQ(terrace({"export", file_}).status, 0);
  RunningDaemon other({"disk.enabled=false"});
  ASSERT_TRUE(other.start().ok());
  const auto import = other.terrace({"import", file_});
  ASSERT_EQ(import.status, 0) << import.errors;
  EXPECT_EQ(served(other.socket_path(), 1), chain_blocks);
}

TEST_F(ArchiveVerbs, SayWhatIsWrongWithAnArchiveAndTakeTheRest) {
  start_daemon();
  store_two_models();
  ASSERT_EQ(terrace({"export", file_}).status, 0);
  RunningDaemon other;
  ASSERT_TRUE(other.start().ok());
  // The payload of the second record; what follows it cannot be reached.
  const std::size_t record_bytes = record_header_bytes + block_bytes;
  damage_file(file_, 2 * record_header_bytes + record_bytes + record_header_bytes + 77);
  auto result = other.terrace({"import", file_, "--json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("does not verify in 1 place;"));
  json report = json::parse(result.output);
  EXPECT_EQ(report.at("imported"), 1 + chain_blocks);
  EXPECT_EQ(report.at("refused"), chain_blocks - 2);
  EXPECT_EQ(report.at("damages"), 1);
  EXPECT_THAT(report.at("refusal").get<std::string>(), HasSubstr("the block before it is not"));

  std::filesystem::resize_file(file_, 2 * record_header_bytes + 3 * record_bytes + 100);
  result = other.terrace({"import", file_, "--json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(json::parse(result.output).at("complete"), false);
  std::ofstream(file_) << "something else";
  EXPECT_THAT(other.terrace({"import", file_}).errors, HasSubstr("this is no archive of terrace"));
}

TEST_F(ArchiveVerbs, AreGoneOnWithWhereTheyWereKilled) {
  start_daemon();
  store_two_models();
  {
    const test_support::Process cut(
        {program("terrace"), "--socket", socket_path(), "export", file_});
    ASSERT_TRUE(test_support::wait_until([&] {
      return std::filesystem::exists(file_ + ".part") || std::filesystem::exists(file_);
    }));
    cut.signal(SIGKILL);
  }
  if (!std::filesystem::exists(file_)) {
    EXPECT_EQ(said({"export", file_, "--resume"}).at("blocks"), 2 * chain_blocks);
  }
  ASSERT_EQ(terrace({"import", file_, "--dry-run"}).status, 0);
  // Cut in the midst for certain.
  std::filesystem::copy_file(file_, file_ + ".part");
  std::filesystem::resize_file(file_ + ".part", 200'000);
  const json resumed = said({"export", file_, "--resume", "--yes"});
  EXPECT_EQ(resumed.at("kept"), 2);
  EXPECT_EQ(resumed.at("blocks"), 2 * chain_blocks);

  RunningDaemon other;
  ASSERT_TRUE(other.start().ok());
  const auto other_stats = [&] {
    return json::parse(*client::fetch_stats_json(other.socket_path(), soon()));
  };
  {
    const test_support::Process cut(
        {program("terrace"), "--socket", other.socket_path(), "import", file_});
    ASSERT_TRUE(test_support::wait_until(
        [&] { return other_stats().at("tiers").at("disk").at("blocks") > 0; }));
    cut.signal(SIGKILL);
  }
  const auto rest = json::parse(other.terrace({"import", file_, "--json"}).output);
  EXPECT_EQ(rest.at("imported").get<std::size_t>() + rest.at("there").get<std::size_t>(),
            2 * chain_blocks);
  EXPECT_GT(rest.at("there"), 0);
  EXPECT_EQ(other_stats().at("reserved_slots"), 0);
  EXPECT_EQ(served(other.socket_path(), 2), chain_blocks);
}

TEST_F(ArchiveVerbs, VerifyFindsWhatIsWrongOnARunningDaemonAndRemovesJustThat) {
  start_daemon();
  store_two_models();
  json report = said({"verify", "--share", "1"});
  EXPECT_EQ(report.at("copies").at("disk"), 2 * chain_blocks);
  EXPECT_EQ(report.at("copies").at("device"), 2 * chain_blocks);
  EXPECT_TRUE(report.at("bad").empty());
  const auto keys = keys_of_model(1);
  flip_a_byte(keys[2], record_header_bytes + 5);
  for (const bool repair : {false, false, true}) {
    report = repair ? said({"verify", "--repair", "--yes"}, 1) : said({"verify"}, 1);
    ASSERT_EQ(report.at("bad").size(), 1u);
    EXPECT_EQ(report.at("bad")[0].at("key"), keys[2].hex());
    EXPECT_EQ(report.at("bad")[0].at("tier"), "disk");
    EXPECT_THAT(report.at("bad")[0].at("place").get<std::string>(), HasSubstr("/data-000000 at "));
    EXPECT_EQ(report.at("bad")[0].at("removed"), repair);
  }
  EXPECT_THAT(terrace({"verify", "--repair"}).errors, HasSubstr("say --yes"));
  report = said({"verify"});
  EXPECT_EQ(report.at("copies").at("disk"), 2 * chain_blocks - 1);
  for (const int number : {1, 2}) EXPECT_EQ(served(socket_path(), number), chain_blocks);
}

TEST_F(ArchiveVerbs, VerifyReadsAStoppedStoreAndRepairsIt) {
  start_daemon();
  store_two_models();
  const std::string data = directory().file("data");
  const auto stopped = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"verify", "--data-dir", data, "--json"});
    return run_program("terrace", std::move(arguments));
  };
  EXPECT_THAT(stopped({}).errors, HasSubstr("is in use by another daemon"));
  ASSERT_EQ(daemon().stop(), 0);
  EXPECT_EQ(stopped({}).status, 0);
  const auto keys = keys_of_model(2);
  flip_a_byte(keys[3], record_header_bytes + 5);
  flip_a_byte(keys[2], 300);  // its header
  auto result = stopped({});
  EXPECT_EQ(result.status, 1) << result.errors;
  json store = json::parse(result.output).at("stores").at(0);
  EXPECT_EQ(store.at("records"), 2 * chain_blocks);
  EXPECT_EQ(store.at("bad").size(), 2u);
  EXPECT_EQ(store.at("index_problem"), "");
  EXPECT_EQ(json::parse(stopped({}).output).at("stores").at(0), store);  // nothing was changed
  result = stopped({"--repair", "--yes"});
  EXPECT_EQ(json::parse(result.output).at("stores").at(0).at("removed"), 2) << result.errors;
  result = stopped({});
  EXPECT_EQ(result.status, 0) << result.output << result.errors;
  EXPECT_EQ(json::parse(result.output).at("stores").at(0).at("records"), 2 * chain_blocks - 2);
  // Without its index, too, and the rest is served.
  std::filesystem::remove_all(data + "/index");
  result = stopped({});
  EXPECT_EQ(json::parse(result.output).at("stores").at(0).at("index_problem"), "there is none");
  ASSERT_TRUE(daemon().start().ok());
  EXPECT_EQ(served(socket_path(), 1), chain_blocks);
  EXPECT_EQ(served(socket_path(), 2), 2u);
  EXPECT_EQ(run_program("terrace", {"verify", "--data-dir", directory().file("none")}).status, 1);
  // What would have no effect is not taken in silence.
  const auto shared = run_program("terrace", {"verify", "--data-dir", data, "--share", "0.5"});
  EXPECT_EQ(shared.status, 2);
  EXPECT_THAT(shared.errors, HasSubstr("--share"));
}

TEST_F(ArchiveVerbs, WhatWasErasedOrIsTooOldDoesNotComeBackWithAnIndexMadeAnew) {
  const std::string config = directory().file("terraced.toml");
  std::ofstream(config) << "\n";
  start_daemon_with_file(config);
  store_two_models();
  const auto first = keys_of_model(1);
  ASSERT_EQ(terrace({"evict", first[2].hex(), "--yes"}).status, 0);
  // From elsewhere, and a week old.
  const SpaceDescriptor old = model(3);
  const auto old_keys = derive_block_keys(old.digest(), prompt(chain_blocks), block_tokens);
  auto writer = cli::ArchiveWriter::create(file_, 1);
  ASSERT_TRUE(writer.has_value());
  ASSERT_TRUE(writer->add(old).ok());
  for (std::size_t i = 0; i < old_keys.size(); ++i) {
    RecordHeader header;
    header.space = old.digest();
    header.key = old_keys[i];
    header.parent = i == 0 ? old.digest() : old_keys[i - 1];
    const auto tokens = prompt(chain_blocks);
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i * block_tokens);
    header.tokens = {begin, begin + block_tokens};
    header.created_unix_ms = SystemClock().unix_ms() - 7ll * 86'400'000;
    std::vector<std::byte> payload(block_bytes);
    for (std::size_t at = 0; at < payload.size(); at += old_keys[i].bytes.size())
      std::memcpy(payload.data() + at, old_keys[i].bytes.data(), old_keys[i].bytes.size());
    ASSERT_TRUE(writer->add(header, payload, payload_checksum(payload)).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(said({"import", file_}).at("imported"), chain_blocks);
  EXPECT_EQ(served(socket_path(), 3), chain_blocks);

  std::ofstream(config) << "[spaces.\"model 3\"]\nmax_age = \"6d\"\n";
  daemon().signal(SIGHUP);
  ASSERT_TRUE(stats_become("expired_blocks", chain_blocks)) << daemon().log();
  EXPECT_EQ(served(socket_path(), 3), 0u);
  EXPECT_EQ(said({"import", file_}, 1).at("refused"), chain_blocks);
  // Also what a crash interrupts is not told apart from this: both are erased in place.
  ASSERT_EQ(daemon().stop(), 0);
  std::filesystem::remove_all(directory().file("data") + "/index");
  std::ofstream(config) << "\n";
  ASSERT_TRUE(daemon().start().ok());
  EXPECT_EQ(stats().at("tiers").at("disk").at("blocks"), 2 * chain_blocks - 2);
  EXPECT_EQ(served(socket_path(), 1), 2u);
  EXPECT_EQ(served(socket_path(), 2), chain_blocks);
  EXPECT_EQ(served(socket_path(), 3), 0u);
}

}  // namespace
}  // namespace terrace::integration
