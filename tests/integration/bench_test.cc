// terrace-bench runs through, verifies what it measured and ends with one JSON line. No figure is
// asserted.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace terrace::bench {
namespace {

using nlohmann::json;

class Bench : public ::testing::Test {
 protected:
  Bench() { EXPECT_TRUE(test_support::write_tiny_model({}, model_).ok()); }

  static json last_line(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), std::string(TERRACE_BIN_DIR) + "/terrace-bench");
    const auto result = test_support::run_process(arguments, {}, std::chrono::seconds(120));
    EXPECT_EQ(result.status, 0) << result.errors;
    const std::string text = result.output.substr(0, result.output.find_last_not_of('\n') + 1);
    const auto line = text.substr(text.find_last_of('\n') + 1);
    EXPECT_TRUE(json::accept(line)) << text;
    return json::parse(line, nullptr, false);
  }

  static void expect_keys(const json& line, const std::vector<std::string>& keys) {
    for (const std::string& key : keys)
      EXPECT_TRUE(line.contains(key)) << key << " in " << line.dump();
  }

  test_support::TempDir directory_;
  const std::string model_ = directory_.file("tiny.gguf");
};

TEST_F(Bench, Prefill) {
  const json line = last_line({"prefill", "--model", model_, "--quick", "--repetitions", "1"});
  expect_keys(line, {"bench", "points", "peak_gmacs", "threads", "isa", "compute"});
  for (const json& point : line.at("points"))
    expect_keys(point, {"tokens", "tokens_per_s", "peak_ratio"});
}

TEST_F(Bench, Decode) {
  const json line = last_line({"decode", "--model", model_, "--quick", "--repetitions", "1"});
  expect_keys(line, {"bench", "points", "read_GBps", "threads", "isa", "compute"});
  for (const json& point : line.at("points"))
    expect_keys(point, {"depth", "sequences", "tokens_per_s", "read_ratio"});
}

TEST_F(Bench, Rpc) {
  const json line = last_line({"rpc", "--quick", "--rounds", "50"});
  expect_keys(line,
              {"bench", "match_p50_us", "match_p99_us", "ping_p50_us", "ping_p99_us", "ratio_p50"});
}

TEST_F(Bench, Staging) {
  const json line = last_line({"staging", "--quick", "--repetitions", "1", "--blocks", "20"});
  expect_keys(line, {"bench", "memcpy_GBps", "put_GBps", "get_GBps", "put_ratio", "get_ratio",
                     "stream_put_GBps", "stream_get_GBps"});
}

TEST_F(Bench, TtftFindsEveryTierAndTheSameLogits) {
  const json line =
      last_line({"ttft", "--model", model_, "--quick", "--tokens", "300", "--new", "8"});
  expect_keys(line, {"bench", "prompt_tokens", "cached_tokens", "cold_ms", "resident_ms",
                     "device_ms", "host_ms", "disk_ms", "redis_ms", "logits_equal"});
  EXPECT_GT(line.at("redis_ms"), 0);
  EXPECT_EQ(line.value("cached_tokens", 0), 288);
  EXPECT_TRUE(line.value("logits_equal", false));
}

TEST_F(Bench, CodecGivesBackEveryBlock) {
  for (const std::string kv : {"bf16", "f32"}) {
    const json line =
        last_line({"codec", "--model", model_, "--quick", "--repetitions", "1", "--kv", kv});
    expect_keys(line, {"bench", "codecs", "default", "fastest_from_disk"});
    ASSERT_EQ(line.at("codecs").size(), 3u);
    for (const json& codec : line.at("codecs"))
      expect_keys(codec, {"name", "ratio", "encode_GBps", "decode_GBps"});
  }
}

TEST_F(Bench, TiersCopiesAndReadsBackWhatItWrote) {
  const json line = last_line(
      {"tiers", "--quick", "--megabytes", "8", "--repetitions", "1", "--block-kib", "128,720"});
  const std::vector<std::string> keys = {"host_to_device_ratio", "device_to_host_ratio",
                                         "disk_read_ratio",      "disk_write_ratio",
                                         "disk_read_GBps",       "disk_write_GBps",
                                         "write_amplification",  "page_cache_growth_bytes"};
  expect_keys(line, keys);
  ASSERT_EQ(line.at("sizes").size(), 2u);
  for (const json& size : line.at("sizes")) expect_keys(size, keys);
  EXPECT_EQ(line.at("sizes")[1].at("block_bytes"), 720 * 1024);
}

TEST_F(Bench, RedisStoresAndReadsBackWhatItWrote) {
  const json line = last_line(
      {"redis", "--quick", "--megabytes", "8", "--repetitions", "1", "--block-kib", "128,720"});
  expect_keys(line, {"bench", "sizes", "exists512_ms", "local_match_ratio_when_down"});
  ASSERT_EQ(line.at("sizes").size(), 2u);
  for (const json& size : line.at("sizes"))
    expect_keys(size, {"bytes", "get_ratio", "set_ratio", "get_GBps", "set_GBps"});
}

TEST_F(Bench, CatalogMatchesTouchesAndEvicts) {
  const json line = last_line({"catalog", "--quick", "--blocks", "5000,100000", "--rounds", "5"});
  expect_keys(line, {"bench", "match512_us", "match512_us_100k", "bytes_per_block", "ops"});
  ASSERT_EQ(line.at("ops").size(), 2u);
  for (const json& point : line.at("ops")) expect_keys(point, {"blocks", "ns_per_op"});
  EXPECT_LE(line.value("bytes_per_block", 1e9), 128);
}

TEST_F(Bench, LoadGetsTheBytesThatItSealedBesideAClientThatDoesNotRead) {
  const json line = last_line({"load", "--quick", "--clients", "40", "--duration", "1"});
  expect_keys(line, {"bench", "clients", "requests_per_s", "ping_requests_per_s", "ratio_rps",
                     "p99_us", "ping_p99_us", "p99_ratio", "rss_growth_bytes", "errors"});
  EXPECT_EQ(line.value("errors", 1), 0);
  EXPECT_GT(line.value("sealed_blocks", 0), 0);
  EXPECT_GT(line.value("verified_blocks", 0), 0);
}

TEST_F(Bench, AttentionIsTheSameInTwoPhases) {
  const json line = last_line({"attention", "--sequences", "1,5", "--shared-tokens", "64",
                               "--own-tokens", "3", "--repetitions", "1"});
  expect_keys(line, {"bench", "threads", "isa"});
  ASSERT_EQ(line.at("points").size(), 2u);
  for (const json& point : line.at("points"))
    expect_keys(point, {"sequences", "shared_tokens", "one_phase_us", "two_phase_us", "ratio"});
}

TEST_F(Bench, ServeAnswersTheSameWithTheCacheAndWithout) {
  const json line =
      last_line({"serve", "--model", model_, "--load", "1.07", "--seconds", "0.2", "--burst", "6",
                 "--shared-tokens", "70", "--own-tokens", "9", "--output-tokens", "5"});
  expect_keys(line, {"bench", "base_requests_per_s", "burst6_requests_per_s"});
  EXPECT_TRUE(line.value("answers_equal", false));
  ASSERT_EQ(line.at("loads").size(), 2u);
  for (const json& row : line.at("loads"))
    expect_keys(row, {"load", "cache", "requests_per_s", "latency_mean_ms", "latency_p99_ms",
                      "ttft_mean_ms"});
  EXPECT_EQ(line.at("loads")[0].value("cached_tokens", 1), 0);
  EXPECT_GT(line.at("loads")[1].value("cached_tokens", 0), 64);
}

TEST_F(Bench, RestartKnowsEveryBlockAgain) {
  const json line = last_line({"restart", "--quick", "--blocks", "3000", "--repetitions", "1"});
  expect_keys(line,
              {"bench", "blocks", "ready_s", "ready_after_kill_s", "rebuild_s", "bytes_per_block"});
  EXPECT_EQ(line.value("blocks", 0), 3000);
}

TEST_F(Bench, RestartSaysWhenThereIsNoRoomForIt) {
  const auto result = test_support::run_process(
      {std::string(TERRACE_BIN_DIR) + "/terrace-bench", "restart", "--blocks", "100000000"}, {},
      std::chrono::seconds(120));
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.errors.find("--directory"), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace terrace::bench
