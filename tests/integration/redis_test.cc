// Two daemons on one Redis: what one host computed, the other finds, and nobody waits for a server
// that does not answer.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "client/operator.h"
#include "tests/integration/worker_fixture.h"
#include "tests/support/redis_server.h"
#include "tests/support/tcp_proxy.h"

namespace terrace::inference {
namespace {

using test_support::DaemonProcess;
using test_support::RedisServer;
using test_support::wait_until;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t prompt_tokens = 200, cached_tokens = 192, cached_blocks = 6;

class RedisTier : public WorkerFixture {
 protected:
  // A daemon with a directory and a socket of its own, and a worker's engine before it.
  struct Host {
    test_support::TempDir directory;
    std::unique_ptr<DaemonProcess> daemon;
    std::unique_ptr<Engine> engine;
    client::Space* space() const { return engine->space(); }
  };

  // Waits longer than anybody should for a server, so that a busy machine does not count as one
  // that hangs, unless told otherwise.
  std::unique_ptr<Host> start_host(std::vector<std::string> settings) {
    auto host = std::make_unique<Host>();
    settings.insert(settings.begin(),
                    {"disk.capacity=\"256MiB\"", "device.capacity=\"64MiB\"",
                     "redis.lookup_timeout_ms=20000", "redis.load_timeout_ms=20000"});
    host->daemon = std::make_unique<DaemonProcess>(test_support::DaemonOptions{
        std::string(TERRACE_BIN_DIR) + "/terraced", host->directory.path(), std::move(settings)});
    const Status status = host->daemon->start();
    EXPECT_TRUE(status.ok()) << status.message();
    EngineOptions options;
    options.model_path = model_path();
    options.model.threads = 2;
    options.socket_path = host->daemon->socket_path();
    auto engine = Engine::load(options);
    EXPECT_TRUE(engine.has_value()) << engine.error().message();
    host->engine = std::move(*engine);
    EXPECT_TRUE(wait_connected(*host->engine));
    return host;
  }

  static std::string endpoint(std::uint16_t port) {
    return "redis.endpoints=\"127.0.0.1:" + std::to_string(port) + "\"";
  }

  static nlohmann::json stats(const Host& host) {
    const auto text = client::fetch_stats_json(host.daemon->socket_path(),
                                               std::chrono::steady_clock::now() + patience);
    EXPECT_TRUE(text.has_value()) << text.error().message();
    return nlohmann::json::parse(text.value_or("{}"));
  }
  static std::string breaker(const Host& host) { return stats(host).at("redis").at("breaker"); }
  static std::string stats_for_people(const Host& host) {
    return test_support::run_process({std::string(TERRACE_BIN_DIR) + "/terrace", "--socket",
                                      host.daemon->socket_path(), "stats"},
                                     {}, patience)
        .output;
  }

  // What `terrace why` says of a prompt.
  static nlohmann::json explain(const Host& host, const std::vector<Token>& prompt) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    const auto daemon = client::OperatorClient::connect(host.daemon->socket_path());
    EXPECT_TRUE(daemon.has_value()) << daemon.error().message();
    const auto spaces = (*daemon)->list_spaces(deadline);
    EXPECT_TRUE(spaces && spaces->size() == 1);
    const auto why = (*daemon)->explain_json(spaces->at(0).digest(), prompt, deadline);
    EXPECT_TRUE(why.has_value()) << why.error().message();
    return nlohmann::json::parse(why.value_or("{}"));
  }
  static std::string why_missing(const Host& host, const std::vector<Token>& prompt) {
    return explain(host, prompt).at("blocks").at(0).at("why");
  }

  static bool becomes_shared(const RedisServer& server, std::int64_t blocks) {
    return wait_until([&] { return server.command({"DBSIZE"}).integer() >= blocks; }, patience);
  }

  // Computes a prompt and uses it a second time: then others get it.
  void compute_twice(const Host& host, const std::vector<Token>& prompt) {
    logits_of(*host.engine, host.space(), prompt);
    logits_of(*host.engine, host.space(), prompt);
  }

  // What `ask` gives while nothing of the cache may take longer than it may.
  Answer within_its_budget(const Host& host, const std::vector<Token>& prompt) {
    Answer answer;
    SequenceCacheOptions options;
    options.budget = std::chrono::seconds(5);  // less than what a hung server would cost
    options.on_failure = [](const Status& why) { ADD_FAILURE() << why.to_string(); };
    SequenceKv kv(host.engine->model().kv_geometry(), host.space(), options);
    answer.hit = kv.start(prompt);
    EXPECT_TRUE(kv.grow_to(prompt.size()).ok());
    answer.logits.resize(host.engine->model().config().vocabulary);
    const auto fresh = std::span(prompt).subspan(answer.hit.cached_tokens);
    const SequenceStep step{fresh, static_cast<std::uint32_t>(answer.hit.cached_tokens),
                            kv.blocks()};
    EXPECT_TRUE(host.engine->model().forward({&step, 1}, answer.logits).ok());
    kv.computed(fresh);
    return answer;
  }
};

TEST_F(RedisTier, WhatOneHostComputedTheOtherServesBitForBit) {
  const RedisServer server;
  const auto one = start_host({endpoint(server.port())});
  const auto other = start_host({endpoint(server.port())});
  const auto prompt = random_prompt(prompt_tokens, 1);
  const auto without = logits_of(*one->engine, nullptr, prompt);
  compute_twice(*one, prompt);
  ASSERT_TRUE(becomes_shared(server, cached_blocks)) << one->daemon->log();

  const auto why = explain(*other, prompt);
  EXPECT_EQ(why.at("matched_blocks"), cached_blocks);
  EXPECT_EQ(why.at("blocks").at(0).at("state"), "redis");
  EXPECT_THAT(why_missing(*other, random_prompt(prompt_tokens, 5)),
              HasSubstr("nor does Redis have it"));
  const auto found = logits_of(*other->engine, other->space(), prompt);
  EXPECT_EQ(from_tier(found.hit, Tier::redis), cached_tokens);
  EXPECT_TRUE(same_bits(found.logits, without.logits));
  const auto again = logits_of(*other->engine, other->space(), prompt);
  EXPECT_EQ(from_tier(again.hit, Tier::device), cached_tokens);
  EXPECT_TRUE(same_bits(again.logits, without.logits));

  const auto json = stats(*other);
  EXPECT_EQ(json.at("tiers").at("redis").at("hits"), cached_blocks);
  EXPECT_EQ(json.at("tiers").at("redis").at("promotions"), cached_blocks);
  EXPECT_EQ(json.at("redis").at("last_failure"), "");
  EXPECT_THAT(stats_for_people(*other), HasSubstr("redis: on, "));
  // It is the other's own from now on: on its disk, too, without any Redis.
  ASSERT_EQ(other->daemon->stop(), 0);
  server.command({"FLUSHALL"});
  ASSERT_TRUE(other->daemon->start().ok());
  ASSERT_TRUE(wait_connected(*other->engine));
  const auto disk = logits_of(*other->engine, other->space(), prompt);
  EXPECT_EQ(from_tier(disk.hit, Tier::disk), cached_tokens);
  EXPECT_TRUE(same_bits(disk.logits, without.logits));
  // A flush at one host takes what another gave to Redis, though it has never heard of it.
  compute_twice(*one, random_prompt(prompt_tokens, 6));
  ASSERT_TRUE(becomes_shared(server, cached_blocks));
  EXPECT_EQ(test_support::run_process({std::string(TERRACE_BIN_DIR) + "/terrace", "--socket",
                                       other->daemon->socket_path(), "flush", "--yes"},
                                      {}, patience)
                .status,
            0);
  EXPECT_EQ(server.command({"DBSIZE"}).text, "0");
}

// One node is named; the others are learned.
TEST_F(RedisTier, AClusterServesAsOneServerDoes) {
  test_support::RedisCluster cluster;
  const auto setting = endpoint(cluster.node(0).port());
  const auto one = start_host({setting, "redis.mode=cluster"});
  const auto other = start_host({setting, "redis.mode=cluster"});
  const auto prompt = random_prompt(prompt_tokens, 30);
  const auto without = logits_of(*one->engine, nullptr, prompt);
  compute_twice(*one, prompt);
  ASSERT_TRUE(wait_until(
      [&] {
        std::int64_t there = 0;
        for (std::size_t i = 0; i < test_support::RedisCluster::masters; ++i)
          there += cluster.node(i).command({"DBSIZE"}).integer();
        return there >= static_cast<std::int64_t>(cached_blocks);
      },
      patience))
      << one->daemon->log();
  const auto found = logits_of(*other->engine, other->space(), prompt);
  EXPECT_EQ(from_tier(found.hit, Tier::redis), cached_tokens);
  EXPECT_TRUE(same_bits(found.logits, without.logits));
}

TEST_F(RedisTier, AServerThatDiesCostsNobodyAnythingAndComesBack) {
  RedisServer server;
  const auto one = start_host({endpoint(server.port())});
  const auto other = start_host({endpoint(server.port())});
  const auto prompt = random_prompt(prompt_tokens, 2), unknown = random_prompt(prompt_tokens, 3);
  compute_twice(*one, prompt);
  ASSERT_TRUE(becomes_shared(server, cached_blocks));

  server.kill();
  const auto plain = logits_of(*other->engine, nullptr, unknown);
  EXPECT_TRUE(same_bits(within_its_budget(*other, unknown).logits, plain.logits));
  EXPECT_TRUE(wait_until([&] { return breaker(*other) == "open"; }, patience));
  EXPECT_NE(stats(*other).at("redis").at("last_failure"), "");
  EXPECT_THAT(stats_for_people(*other), HasSubstr("redis: off since "));
  EXPECT_EQ(from_tier(within_its_budget(*other, prompt).hit, Tier::redis), 0u);
  EXPECT_THAT(why_missing(*other, random_prompt(prompt_tokens, 7)),
              HasSubstr("Redis is not asked, because it failed: "));

  server.start();
  EXPECT_TRUE(wait_until([&] { return breaker(*one) == "closed" && breaker(*other) == "closed"; },
                         patience));
  EXPECT_THAT(stats_for_people(*other), HasSubstr("redis: was off at "));
  const auto later = random_prompt(prompt_tokens, 4);
  const auto without = logits_of(*one->engine, nullptr, later);
  compute_twice(*one, later);
  ASSERT_TRUE(becomes_shared(server, cached_blocks));
  const auto found = logits_of(*other->engine, other->space(), later);
  EXPECT_EQ(from_tier(found.hit, Tier::redis), cached_tokens);
  EXPECT_TRUE(same_bits(found.logits, without.logits));
}

TEST_F(RedisTier, AServerThatHangsIsNotAwaited) {
  RedisServer server;
  const auto one = start_host({endpoint(server.port())});
  const auto other = start_host(
      {endpoint(server.port()), "redis.lookup_timeout_ms=10", "redis.load_timeout_ms=100"});
  const auto prompt = random_prompt(prompt_tokens, 5);
  const auto without = logits_of(*one->engine, nullptr, prompt);
  compute_twice(*one, prompt);
  ASSERT_TRUE(becomes_shared(server, cached_blocks));
  const auto keys = derive_block_keys(other->space()->digest(), prompt, 32);
  const auto soon = std::chrono::steady_clock::now() + patience;
  ASSERT_TRUE(wait_until(
      [&] {
        const auto match = other->space()->match(keys, prompt, soon);
        return match.has_value() && match->matched_blocks == cached_blocks;
      },
      patience));

  server.freeze();  // between the answer that they are there and the loads
  const auto answer = within_its_budget(*other, prompt);
  EXPECT_EQ(answer.hit.cached_tokens, 0u);
  EXPECT_TRUE(same_bits(answer.logits, without.logits));
  for (unsigned seed = 10; seed < 14; ++seed)
    within_its_budget(*other, random_prompt(prompt_tokens, seed));
  server.thaw();
  EXPECT_TRUE(wait_until([&] { return breaker(*other) == "closed"; }, patience));
}

// One flipped bit (maybe in padding), then a connection that is cut in the middle of a value (which
// may be asked for again).
TEST_F(RedisTier, WhatIsDamagedOrCutOnItsWayChangesNoAnswer) {
  const RedisServer server;
  test_support::TcpProxy proxy(server.port());
  const auto one = start_host({endpoint(server.port())});
  const auto other = start_host({endpoint(proxy.port())});
  std::int64_t shared = 0;
  for (const bool cut : {false, true}) {
    const auto prompt = random_prompt(prompt_tokens, cut ? 21 : 20);
    const auto without = logits_of(*one->engine, nullptr, prompt);
    compute_twice(*one, prompt);
    shared += cached_blocks;
    ASSERT_TRUE(becomes_shared(server, shared));
    ASSERT_TRUE(wait_until([&] { return breaker(*other) == "closed"; }, patience));
    // Past the answer to the question, within the blocks.
    const std::uint64_t into_the_blocks = other->engine->model().kv_geometry().block_bytes() * 2;
    cut ? proxy.cut_after(into_the_blocks) : proxy.corrupt_after(into_the_blocks);
    const auto answer = within_its_budget(*other, prompt);
    EXPECT_TRUE(proxy.done());
    EXPECT_TRUE(same_bits(answer.logits, without.logits));
    EXPECT_TRUE(other->space()->flush(std::chrono::steady_clock::now() + patience).ok());
    EXPECT_TRUE(
        same_bits(logits_of(*other->engine, other->space(), prompt).logits, without.logits));
    // What did not verify is deleted there: whoever uses it gives it again.
    if (!cut) shared = server.command({"DBSIZE"}).integer();
  }
}

TEST_F(RedisTier, AServerThatIsNotThereAtStartComesWhenItComes) {
  const std::uint16_t port = test_support::free_port();
  const auto one = start_host({endpoint(port)});
  const auto prompt = random_prompt(prompt_tokens, 6);
  compute_twice(*one, prompt);
  const RedisServer server({}, port);
  ASSERT_TRUE(wait_until([&] { return breaker(*one) == "closed"; }, patience));
  EXPECT_TRUE(becomes_shared(server, cached_blocks));
}

TEST_F(RedisTier, ThePasswordIsReadFromAFileAndSaidToNobody) {
  const RedisServer server({"--requirepass", "open-sesame-7"});
  const test_support::TempDir secrets;
  std::ofstream(secrets.file("right")) << "open-sesame-7\n";
  std::ofstream(secrets.file("wrong")) << "open-sesame-8\n";
  // What others may read is no secret.
  for (const char* file : {"right", "wrong"})
    std::filesystem::permissions(secrets.file(file), std::filesystem::perms::owner_read);
  const auto setting = [&](const char* file) {
    return "redis.password_file=\"" + secrets.file(file) + "\"";
  };
  const auto right = start_host({endpoint(server.port()), setting("right"), "log.level=trace"});
  const auto wrong = start_host({endpoint(server.port()), setting("wrong"), "log.level=trace"});
  const auto prompt = random_prompt(prompt_tokens, 7);
  compute_twice(*right, prompt);
  EXPECT_TRUE(wait_until([&] { return stats(*right).at("redis").at("written") >= cached_blocks; },
                         patience));
  within_its_budget(*wrong, prompt);
  EXPECT_TRUE(
      wait_until([&] { return stats(*wrong).at("redis").at("last_failure") != ""; }, patience));
  EXPECT_THAT(stats(*wrong).at("redis").at("last_failure"), HasSubstr("WRONGPASS"));
  for (const Host* host : {right.get(), wrong.get()}) {
    EXPECT_THAT(host->daemon->log() + stats(*host).dump(), Not(HasSubstr("open-sesame")));
  }
}

}  // namespace
}  // namespace terrace::inference
