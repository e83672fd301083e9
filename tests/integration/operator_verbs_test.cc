// Each verb of `terrace` against a daemon with blocks in it.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/client/daemon_fixture.h"
#include "tests/integration/programs.h"

namespace terrace::integration {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class OperatorVerbs : public client::DaemonFixture {
 protected:
  ProcessResult terrace(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--socket", socket_path()});
    return run_program("terrace", std::move(arguments));
  }
  // What a verb prints that must not fail.
  std::string say(std::vector<std::string> arguments) const {
    const ProcessResult result = terrace(std::move(arguments));
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.output;
  }
  std::string refused(std::vector<std::string> arguments) const {
    const ProcessResult result = terrace(std::move(arguments));
    EXPECT_EQ(result.status, 1) << result.output;
    EXPECT_EQ(result.output, "");
    return result.errors;
  }

  // Two prompts that share their first two blocks, of three and four blocks.
  void store_two_prompts() {
    start_daemon();
    client_ = connected_client();
    space_ = client_->open_space(descriptor());
    first_ = prompt(3);
    second_ = prompt(4);
    for (std::size_t i = 2 * block_tokens; i < second_.size(); ++i) second_[i] += 10'000;
    store(*space_, first_);
    store_tail(second_, 2);
  }
  // Seals the blocks of a prompt from a block on.
  void store_tail(const std::vector<Token>& tokens, std::size_t from) {
    const auto keys = keys_of(*space_, tokens);
    const client::LeaseId lease = space_->new_lease();
    const auto slots = space_->reserve(lease, std::span(keys).subspan(from), 0, soon());
    ASSERT_TRUE(slots.has_value()) << slots.error().message();
    std::vector<client::SealBlock> blocks;
    for (std::size_t i = from; i < keys.size(); ++i) {
      fill((*slots)[i - from], keys[i]);
      const auto at = tokens.begin() + static_cast<std::ptrdiff_t>(i * block_tokens);
      blocks.push_back({(*slots)[i - from], keys[i - 1], {at, at + block_tokens}});
    }
    space_->seal(lease, std::move(blocks));
    space_->release(lease);
    ASSERT_TRUE(space_->flush(soon()).ok());
  }
  bool on_disk(std::uint64_t blocks) {
    return test_support::wait_until(
        [&] { return stats().at("tiers").at("disk").at("blocks") == blocks; }, patience);
  }

  std::unique_ptr<client::Client> client_;
  std::shared_ptr<client::Space> space_;
  std::vector<Token> first_, second_;
};

TEST_F(OperatorVerbs, TreeShowsWhatBranchesWhere) {
  store_two_prompts();
  ASSERT_TRUE(on_disk(5));
  const std::string tree = say({"tree"});
  EXPECT_THAT(tree, StartsWith("space " + space_->digest().hex().substr(0, 12) +
                               " (test model)\n"
                               "`- 2 blocks, 64 tokens, 128 KiB, device+disk, used "));
  EXPECT_THAT(tree, HasSubstr("\n   |- 2 blocks, 64 tokens, "));
  EXPECT_THAT(tree, HasSubstr("\n   `- 1 block, 32 tokens, "));
  EXPECT_THAT(tree, HasSubstr("[1 2 3 4 5 6 7 8 ...]"));
  const json spaces = json::parse(say({"tree", "--json"}));
  ASSERT_EQ(spaces.size(), 1u);
  const json& root = spaces[0].at("prefixes").at(0);
  EXPECT_EQ(root.at("blocks"), 2);
  ASSERT_EQ(root.at("branches").size(), 2u);
  EXPECT_EQ(root.at("branches")[0].at("key"), keys_of(*space_, second_).back().hex());
}

TEST_F(OperatorVerbs, InspectTellsEverythingOfABlock) {
  store_two_prompts();
  ASSERT_TRUE(on_disk(5));
  const auto keys = keys_of(*space_, first_);
  ASSERT_EQ(terrace({"pin", keys[2].hex()}).status, 0);
  const auto held = space_->acquire(space_->new_lease(), std::span(keys).first(2), {}, soon());
  ASSERT_EQ(held->size(), 2u);

  // The digits of a table are enough.
  const json block = json::parse(say({"inspect", keys[1].hex().substr(0, 12), "--json"}));
  EXPECT_EQ(block.at("key"), keys[1].hex());
  EXPECT_EQ(block.at("parent"), keys[0].hex());
  EXPECT_EQ(block.at("space"), space_->digest().hex());
  EXPECT_EQ(block.at("depth"), 1);
  EXPECT_EQ(block.at("children"), 2);
  EXPECT_EQ(block.at("tokens").get<std::vector<Token>>(),
            std::vector<Token>(first_.begin() + block_tokens, first_.begin() + 2 * block_tokens));
  EXPECT_TRUE(block.at("copies").contains("device"));
  EXPECT_GT(block.at("copies").at("disk").at("bytes"), 0);
  EXPECT_EQ(block.at("held_by_sessions").size(), 1u);
  EXPECT_EQ(block.at("pins"), json::array({keys[2].hex()}));
  EXPECT_THAT(say({"inspect", keys[1].hex()}),
              AllOf(HasSubstr("held by    session 1\n"), HasSubstr("tokens     33 34 35 ")));
  EXPECT_THAT(refused({"inspect", "ffffffffffffffff"}), HasSubstr("no block's key begins with"));
  EXPECT_THAT(refused({"inspect", "xyz"}), HasSubstr("is no key"));
}

TEST_F(OperatorVerbs, WhyTellsOfEachBlockWhereItIsOrWhyNot) {
  store_two_prompts();
  std::vector<Token> asked = first_;
  for (Token& token : std::span(asked).subspan(2 * block_tokens + 5)) token += 1'000'000;
  asked.push_back(7);
  const std::string file = directory().file("tokens.json");
  std::ofstream(file) << json(asked);
  const json why = json::parse(say({"why", "--tokens", file, "--json"}));
  EXPECT_EQ(why.at("matched_blocks"), 2);
  EXPECT_EQ(why.at("matched_tokens"), 2 * block_tokens + 5);
  EXPECT_EQ(why.at("tail_tokens"), 1);
  ASSERT_EQ(why.at("blocks").size(), 3u);
  EXPECT_EQ(why.at("blocks")[1].at("state"), "device");
  EXPECT_EQ(why.at("blocks")[2].at("state"), "absent");
  EXPECT_THAT(
      why.at("blocks")[2].at("why").get<std::string>(),
      HasSubstr("5 of its 32 tokens agree with block " + keys_of(*space_, first_)[2].hex()));
  EXPECT_THAT(say({"why", "--tokens", file, "--space", "test model"}),
              AllOf(HasSubstr("69 tokens would be reused"), HasSubstr("blocks 0-1 ")));
  EXPECT_THAT(refused({"why", "--tokens", file, "--space", "another"}),
              HasSubstr("there is no space 'another'"));
  EXPECT_THAT(refused({"why"}), HasSubstr("give one of --tokens and --prompt"));
  std::ofstream(file) << "1, 2, three";
  EXPECT_THAT(refused({"why", "--tokens", file}), HasSubstr("token 3 is no token id"));
}

TEST_F(OperatorVerbs, WarmBringsPrefixesBackFromDisk) {
  store_two_prompts();
  ASSERT_TRUE(on_disk(5));
  space_.reset();
  client_.reset();
  ASSERT_EQ(daemon().stop(), 0);
  ASSERT_TRUE(daemon().start().ok());
  ASSERT_EQ(stats().at("tiers").at("device").at("blocks"), 0);

  EXPECT_THAT(say({"warm", "--all", "--dry-run"}),
              HasSubstr("2 prefixes would be warmed; 0 are whole in the device tier already\n"));
  EXPECT_EQ(stats().at("tiers").at("device").at("blocks"), 0);
  EXPECT_THAT(say({"warm", "--hottest", "1"}),
              StartsWith("1 prefixes, of which 1 are whole in the device tier: "));
  std::size_t brought = 0, there = 0;
  std::istringstream lines(say({"warm", "--all", "--json"}));
  for (std::string line; std::getline(lines, line);) {
    const json block = json::parse(line);
    brought += block.at("outcome") == "brought";
    there += block.at("outcome") == "was_there";
  }
  EXPECT_EQ(there, 2u);
  EXPECT_EQ(stats().at("tiers").at("device").at("blocks"), 5);
  EXPECT_GE(brought, 1u);
  EXPECT_TRUE(stats_become("leases", 0));
  EXPECT_THAT(say({"warm", "--all"}),
              AllOf(StartsWith("0 prefixes"), HasSubstr("; 2 more prefixes were whole already\n")));
  EXPECT_EQ(say({"warm", "--hottest", "1", "--dry-run"}),
            "0 prefixes would be warmed; 1 are whole in the device tier already\n");
  EXPECT_THAT(refused({"warm"}), HasSubstr("say what"));
}

TEST_F(OperatorVerbs, EvictTakesABlockAndWhatFollowsIt) {
  store_two_prompts();
  ASSERT_TRUE(on_disk(5));
  const auto keys = keys_of(*space_, second_);
  EXPECT_THAT(refused({"evict", keys[2].hex()}), HasSubstr("say --yes"));
  EXPECT_EQ(say({"evict", keys[2].hex().substr(0, 12), "--yes"}), "dropped 2 blocks\n");
  EXPECT_EQ(space_->match(keys, second_, soon())->matched_blocks, 2u);
  EXPECT_EQ(stats().at("tiers").at("disk").at("blocks"), 3);
  ASSERT_EQ(terrace({"pin", keys[1].hex()}).status, 0);
  EXPECT_THAT(refused({"evict", keys[0].hex(), "--yes"}), HasSubstr("pinned"));
}

TEST_F(OperatorVerbs, FlushAndDropSpaceLeaveNothing) {
  store_two_prompts();
  EXPECT_THAT(refused({"drop-space", "test model"}), HasSubstr("say --yes"));
  EXPECT_EQ(say({"drop-space", "test model", "--yes"}), "dropped 5 blocks\n");
  store(*space_, first_);
  EXPECT_THAT(refused({"flush"}), HasSubstr("say --yes"));
  EXPECT_EQ(say({"flush", "--yes"}), "dropped 3 blocks\n");
  const json tiers = stats().at("tiers");
  EXPECT_EQ(tiers.at("device").at("blocks"), 0);
  EXPECT_EQ(tiers.at("disk").at("blocks"), 0);
  EXPECT_EQ(say({"tree"}), "the cache is empty\n");
}

TEST_F(OperatorVerbs, SessionsAreShownAndCut) {
  store_two_prompts();
  const json sessions = json::parse(say({"sessions", "--json"}));
  ASSERT_EQ(sessions.size(), 1u);
  EXPECT_EQ(sessions[0].at("client"), "test");
  EXPECT_EQ(sessions[0].at("pid"), ::getpid());
  EXPECT_EQ(sessions[0].at("connected"), true);
  EXPECT_THAT(say({"sessions"}), HasSubstr("  yes        test\n"));
  const auto id = sessions[0].at("id").get<std::uint64_t>();
  EXPECT_THAT(refused({"kick", "99"}), HasSubstr("there is no session 99"));
  EXPECT_EQ(say({"kick", std::to_string(id)}), "");
  // The client comes back with a session of its own.
  EXPECT_TRUE(test_support::wait_until(
      [&] {
        const json now = json::parse(say({"sessions", "--json"}));
        return now.size() == 1 && now[0].at("id") != id && now[0].at("connected") == true;
      },
      patience));
}

TEST_F(OperatorVerbs, TopShowsWhatHappens) {
  store_two_prompts();
  const std::string looks = say({"top", "--interval", "0.1", "--looks", "2"});
  EXPECT_THAT(looks, StartsWith("sessions 1, leases 0, "));
  EXPECT_THAT(looks,
              HasSubstr("\ndevice  [....................]     320 KiB    32 MiB         5 "));
}

}  // namespace
}  // namespace terrace::integration
