// The page, in a real browser that has no display.
#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/checksum.h"
#include "inference/gguf/gguf_file.h"
#include "inference/tokenizer/tokenizer.h"
#include "protocol/packed.h"
#include "tests/cache_daemon/protocol_fixture.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

namespace terrace::daemon {
namespace {

using test_support::http_get;

constexpr std::uint64_t block_bytes = 64 << 10;

class PageTest : public ProtocolFixture {
 protected:
  ~PageTest() noexcept override = default;

  // Two blocks of a prefix, under a label that is not meant well; the first is pinned.
  void fill(const std::string& label = "<img src=x id=injected>", Token first_token = 4000) {
    SpaceDescriptor descriptor;
    descriptor.numerics_id = "test";
    descriptor.kv_dtype = "bf16";
    descriptor.layout_id = "cpu-tile32";
    descriptor.block_bytes = block_bytes;
    descriptor.label = label;
    auto session = open_session(*worker_);
    auto opening = session.openSpaceRequest();
    protocol::write_descriptor(descriptor, opening.initDescriptor());
    auto space = wait(opening.send()).getSpace();
    auto reserving = space.reserveRequest();
    reserving.setLease(1);
    reserving.setUnnamed(2);
    const auto reserved = wait(reserving.send());
    const auto slots = *protocol::unpack<std::uint64_t>(reserved.getSlots());
    ASSERT_EQ(slots.size(), 2u);

    // Fresh memory is zero.
    const std::uint64_t checksum = payload_checksum(std::vector<std::byte>(block_bytes));
    BlockKey parent = descriptor.digest();
    std::vector<BlockKey> keys;
    for (std::size_t i = 0; i < 2; ++i) {
      std::vector<Token> tokens(descriptor.block_tokens);
      for (std::size_t t = 0; t < tokens.size(); ++t)
        tokens[t] = first_token + static_cast<Token>(32 * i + t);
      auto sealing = space.sealRequest();
      sealing.setLease(1);
      auto block = sealing.initBlocks(1)[0];
      block.setSlot(slots[i]);
      block.setParent(protocol::pack(parent));
      block.setTokens(protocol::pack(std::span<const Token>(tokens)));
      block.setChecksum(checksum);
      ASSERT_EQ(wait(sealing.send()).getOutcomes()[0], 0);
      parent = derive_block_key(parent, tokens);
      keys.push_back(parent);
    }
    auto pinning = worker_->operations.pinRequest();
    pinning.setKey(protocol::pack(keys[0]));
    pinning.setTier(protocol::ANY_TIER);
    wait(pinning.send());
    first_ = keys[0];
    session_ = kj::mv(session);
  }

  test_support::TempDir profile_;
  std::unique_ptr<Connection> worker_;
  kj::Maybe<protocol::Session::Client> session_;  // keeps what it sealed leased
  BlockKey first_;
};

TEST_F(PageTest, IsPartOfTheProgram) {
  start_with_http();
  const auto page = http_get(port_, "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  // Everything that it names is there, and nothing is written into it that the policy forbids.
  std::size_t named = 0;
  for (const char* attribute : {"src=\"", "href=\""})
    for (std::size_t at = 0; (at = page.body.find(attribute, at)) != std::string::npos; ++named) {
      at += std::strlen(attribute);
      const std::string path = page.body.substr(at, page.body.find('"', at) - at);
      EXPECT_EQ(http_get(port_, path).status, 200) << path;
    }
  EXPECT_GE(named, 4u);
  for (const char* forbidden : {"style=", "onclick", "onload", "<style", "http://", "https://"})
    EXPECT_EQ(page.body.find(forbidden), std::string::npos) << forbidden;
}

TEST_F(PageTest, ListsPrefixesAndPins) {
  start_with_http();
  worker_ = connect();
  EXPECT_EQ(http_get(port_, "/api/prefixes").body, "{\"runs\":[]}");
  EXPECT_EQ(http_get(port_, "/api/pins").body, "{\"pins\":[],\"total\":0}");
  fill();
  nlohmann::json runs;
  // What was made for the first question is good for a moment.
  ASSERT_TRUE(test_support::wait_until([&] {
    runs = nlohmann::json::parse(http_get(port_, "/api/prefixes").body).at("runs");
    return !runs.empty();
  }));
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_TRUE(runs[0].at("parent").is_null());
  EXPECT_EQ(runs[0].at("blocks"), 2);
  EXPECT_EQ(runs[0].at("bytes"), 2 * block_bytes);
  EXPECT_EQ(runs[0].at("tiers").at("device"), 2);
  EXPECT_EQ(runs[0].at("tokens")[1], 4001);
  EXPECT_EQ(runs[0].at("holders"), 1);
  EXPECT_EQ(runs[0].at("first"), first_.hex());
  EXPECT_EQ(runs[0].at("pinned"), true);
  const auto pins = nlohmann::json::parse(http_get(port_, "/api/pins").body);
  EXPECT_EQ(pins.at("total"), 1);
  EXPECT_EQ(pins.at("pins")[0].at("key"), first_.hex());
  EXPECT_EQ(pins.at("pins")[0].at("blocks"), 1);
  const auto history = nlohmann::json::parse(http_get(port_, "/api/history").body).at("samples");
  ASSERT_GE(history.size(), 1u);
  EXPECT_EQ(history[0].at("hits"), 0);
}

TEST_F(PageTest, ShowsTextWhereItKnowsTheModel) {
  const std::string model = directory_.file("tiny.gguf");
  ASSERT_TRUE(test_support::write_tiny_model({}, model).ok());
  start_with_http({"models.tiny.file=\"" + model + "\"", "models.tiny.label=\"Tiny 1M\"",
                   "models.gone.file=\"" + directory_.file("absent.gguf") + "\""});
  worker_ = connect();
  fill("Tiny 1M", 40);
  const auto file = gguf::File::open(model);
  const auto tokenizer = tokenizer::Tokenizer::load(**file);
  std::vector<Token> tokens(32);
  std::iota(tokens.begin(), tokens.end(), 40);
  const std::string expected =
      nlohmann::json::parse(nlohmann::json((*tokenizer)->decode(tokens, true))
                                .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
          .get<std::string>();
  ASSERT_FALSE(expected.empty());
  // The file is read while the daemon serves already.
  EXPECT_TRUE(test_support::wait_until([&] {
    const auto runs = nlohmann::json::parse(http_get(port_, "/api/prefixes").body).at("runs");
    return !runs.empty() && runs[0].value("text", "") == expected;
  })) << expected
      << http_get(port_, "/api/prefixes").body;
  EXPECT_NE(daemon_->log().find("models.gone: its tokens are shown as numbers: "),
            std::string::npos);
}

TEST_F(PageTest, ShowsItAllInABrowser) {
  const auto look = test_support::run_process({"/usr/bin/env", "sh", "-c", "command -v chromium"});
  if (look.status != 0) GTEST_SKIP() << "chromium (Debian's package of this name) is not here";
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "it takes too long under ThreadSanitizer";
#endif
  start_with_http();
  worker_ = connect();
  fill();
  const auto browser = test_support::run_process(
      {"/usr/bin/env", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
       "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir=" + profile_.path(),
       "--enable-logging=stderr",
       // So much time passes for the page, as fast as it can.
       "--virtual-time-budget=8000", "--dump-dom",
       "http://127.0.0.1:" + std::to_string(port_) + "/"},
      {.environment = {{"HOME", profile_.path()}}}, std::chrono::seconds(110));
  ASSERT_EQ(browser.status, 0) << browser.errors;
  const std::string& dom = browser.output;
  // Nothing that the policy refused, no error of a script.
  EXPECT_EQ(browser.errors.find("CONSOLE"), std::string::npos) << browser.errors;
  for (const std::string& shown :
       {std::string(">ready<"), std::string(">device<"), std::string("of 8.0 MiB"),
        std::string("4000 4001 4002"), std::string("2 blocks"), std::string(">pinned<"),
        first_.hex().substr(0, 12), std::string("hit ratio over the last hour"),
        std::string("&lt;img src=x id=injected&gt;")})
    EXPECT_NE(dom.find(shown), std::string::npos) << shown << " is not in\n" << dom;
  EXPECT_EQ(dom.find("<img"), std::string::npos);
}

}  // namespace
}  // namespace terrace::daemon
