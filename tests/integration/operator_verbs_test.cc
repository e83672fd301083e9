// Each verb of `terrace` against a daemon with blocks in it.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>

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
  std::string refused(std::vector<std::string> arguments, int status) const {
    const ProcessResult result = terrace(std::move(arguments));
    EXPECT_EQ(result.status, status) << result.output;
    EXPECT_EQ(result.output, "");
    return result.errors;
  }

  // Two prompts that share their first two blocks, of three and four blocks.
  void store_two_prompts(std::vector<std::string> settings = {}) {
    start_daemon(std::move(settings));
    client_ = connected_client();
    space_ = client_->open_space(descriptor());
    first_ = prompt(3);
    second_ = prompt(4);
    for (std::size_t i = 2 * block_tokens; i < second_.size(); ++i) second_[i] += 10'000;
    store(*space_, first_);
    store_tail(second_, 2);
    keys_of_first_ = keys_of(*space_, first_);
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

  // By a daemon before this one: nothing is in memory.
  void leave_two_prompts_on_disk(std::vector<std::string> settings = {}) {
    store_two_prompts(std::move(settings));
    ASSERT_TRUE(on_disk(5));
    space_.reset();
    client_.reset();
    ASSERT_EQ(daemon().stop(), 0);
    ASSERT_TRUE(daemon().start().ok());
  }

  std::unique_ptr<client::Client> client_;
  std::shared_ptr<client::Space> space_;
  std::vector<Token> first_, second_;
  std::vector<BlockKey> keys_of_first_;
};

TEST_F(OperatorVerbs, TreeShowsWhatBranchesWhere) {
  store_two_prompts();
  ASSERT_TRUE(on_disk(5));
  const std::string tree = say({"tree"});
  EXPECT_THAT(
      tree, StartsWith("space " + space_->digest().hex().substr(0, 12) +
                       " (test model)\n"
                       "`- 2 blocks, 64 tokens, 128 KiB, device+disk, 1 use, made 0 s ago, used "));
  EXPECT_THAT(tree, HasSubstr("\n   |- 2 blocks, 64 tokens, "));
  EXPECT_THAT(tree, HasSubstr("\n   `- 1 block, 32 tokens, "));
  EXPECT_THAT(tree, HasSubstr("[1 2 3 4 5 6 7 8 ...]"));
  const json all = json::parse(say({"tree", "--json"}));
  EXPECT_EQ(all.at("truncated"), false);
  const json& spaces = all.at("spaces");
  ASSERT_EQ(spaces.size(), 1u);
  const json& root = spaces[0].at("prefixes").at(0);
  EXPECT_EQ(root.at("blocks"), 2);
  EXPECT_EQ(root.at("uses"), 1);
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
  EXPECT_THAT(
      say({"inspect", keys[1].hex()}),
      AllOf(HasSubstr("held by    session 1 (test, process " + std::to_string(::getpid()) + ")\n"),
            HasSubstr("\nlast used  20"), HasSubstr(" ago; 2 uses\n"),
            HasSubstr("tokens     33 34 35 ")));
  EXPECT_THAT(refused({"inspect", "ffffffffffffffff"}, 4), HasSubstr("no block's key begins with"));
  EXPECT_THAT(refused({"inspect", "xyz"}, 2), HasSubstr("is no key"));
}

TEST_F(OperatorVerbs, InspectDumpsTheBytesOfABlock) {
  store_two_prompts();
  const BlockKey key = keys_of(*space_, first_)[1];
  const std::string file = directory().file("block");
  const auto read = [&] {
    std::ifstream in(file, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  std::string expected;
  for (std::size_t at = 0; at < block_bytes; at += key.bytes.size())
    expected.append(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size());
  EXPECT_EQ(json::parse(say({"inspect", key.hex(), "--dump", file, "--json"})).at("key"),
            key.hex());
  EXPECT_TRUE(read() == expected);
  // What is there stays unless somebody says otherwise, and nothing is left beside it.
  std::ofstream(file) << "mine";
  EXPECT_THAT(refused({"inspect", key.hex(), "--dump", file}, 2), HasSubstr("say --yes"));
  EXPECT_EQ(read(), "mine");
  EXPECT_THAT(refused({"inspect", key.hex(), "--dump", directory().file("absent/block")}, 1),
              HasSubstr("could not create "));
  say({"inspect", key.hex(), "--dump", file, "--yes"});
  EXPECT_TRUE(read() == expected);
  for (const auto& entry : std::filesystem::directory_iterator(directory().path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("block.")) << entry.path();
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
  EXPECT_THAT(refused({"why", "--tokens", file, "--space", "another"}, 4),
              HasSubstr("there is no space 'another'"));
  EXPECT_THAT(refused({"why"}, 2), HasSubstr("give one of --tokens, --prompt"));
  std::ofstream(file) << "1, 2, three";
  EXPECT_THAT(refused({"why", "--tokens", file}, 2), HasSubstr("token 3 is no token id"));
}

TEST_F(OperatorVerbs, WarmBringsPrefixesBackFromDisk) {
  ASSERT_NO_FATAL_FAILURE(leave_two_prompts_on_disk());
  ASSERT_EQ(stats().at("tiers").at("device").at("blocks"), 0);

  EXPECT_THAT(say({"warm", "--all", "--dry-run"}),
              HasSubstr("2 prefixes would be warmed; 0 are whole in the device tier already\n"));
  const json plan = json::parse(say({"warm", "--all", "--dry-run", "--json"}));
  EXPECT_EQ(plan.at("dry_run"), true);
  EXPECT_EQ(plan.at("prefixes").size(), 2u);
  EXPECT_EQ(stats().at("tiers").at("device").at("blocks"), 0);

  // The prefix that ends in one block: nothing of what follows it.
  const auto keys = keys_of_first_;
  EXPECT_EQ(
      say({"warm", "--key", keys[0].hex().substr(0, 8)}),
      "1 prefix, of which 1 is whole in the device tier: 1 block brought, 0 were there, 0 not "
      "known, without room or failed\n");
  EXPECT_EQ(stats().at("tiers").at("device").at("blocks"), 1);

  const json outcome = json::parse(say({"warm", "--all", "--json"}));
  EXPECT_EQ(outcome.at("prefixes"), 2);
  EXPECT_EQ(outcome.at("whole"), 2);
  EXPECT_EQ(outcome.at("brought"), 4);
  EXPECT_EQ(outcome.at("was_there"), 1);
  EXPECT_EQ(outcome.at("not_brought"), 0);
  ASSERT_EQ(outcome.at("blocks").size(), 5u);
  for (const json& block : outcome.at("blocks"))
    EXPECT_EQ(block.at("outcome"), block.at("key") == keys[0].hex() ? "was_there" : "brought");
  EXPECT_EQ(stats().at("tiers").at("device").at("blocks"), 5);
  EXPECT_TRUE(stats_become("leases", 0));
  EXPECT_THAT(say({"warm", "--all"}),
              AllOf(StartsWith("0 prefixes"), HasSubstr("; 2 more prefixes were whole already\n")));
  EXPECT_EQ(say({"warm", "--hottest", "1", "--dry-run"}),
            "0 prefixes would be warmed; 1 is whole in the device tier already\n");
  EXPECT_THAT(refused({"warm"}, 2), HasSubstr("say what"));
}

TEST_F(OperatorVerbs, WarmStopsAtTheHostWhereThatIsSaid) {
  ASSERT_NO_FATAL_FAILURE(leave_two_prompts_on_disk({"host.capacity=\"16MiB\""}));
  EXPECT_THAT(say({"warm", "--all", "--to", "host", "--dry-run"}),
              HasSubstr("2 prefixes would be warmed; 0 are whole in the host tier already\n"));
  const json outcome = json::parse(say({"warm", "--all", "--to", "host", "--json"}));
  EXPECT_EQ(outcome.at("to"), "host");
  EXPECT_EQ(outcome.at("whole"), 2);
  EXPECT_EQ(outcome.at("brought"), 5);
  EXPECT_EQ(stats().at("tiers").at("host").at("blocks"), 5);
  EXPECT_EQ(stats().at("tiers").at("device").at("blocks"), 0);
  EXPECT_TRUE(stats_become("leases", 0));
  EXPECT_THAT(say({"warm", "--all", "--to", "host"}), HasSubstr("; 2 more prefixes were whole"));
  // In the device tier they are not yet; there is more than one way up.
  EXPECT_EQ(json::parse(say({"warm", "--all", "--json"})).at("brought"), 5);
  EXPECT_EQ(stats().at("tiers").at("host").at("promotions"), 5);
  EXPECT_THAT(refused({"warm", "--all", "--to", "disk"}, 2), HasSubstr("--to"));
}

TEST_F(OperatorVerbs, WarmToAHostTierThatIsNotThereIsRefused) {
  ASSERT_NO_FATAL_FAILURE(leave_two_prompts_on_disk());
  EXPECT_THAT(refused({"warm", "--all", "--to", "host"}, 1), HasSubstr("there is no host tier"));
}

TEST_F(OperatorVerbs, WarmTakesTheBlocksOfPromptsInAFile) {
  ASSERT_NO_FATAL_FAILURE(leave_two_prompts_on_disk());
  const std::string manifest = directory().file("manifest.jsonl");
  // A prompt that is known, with more behind it; an empty line; one too short for a block.
  std::vector<Token> longer = first_;
  longer.insert(longer.end(), 40, 5);
  std::ofstream(manifest) << json{{"tokens", longer}} << "\n\n" << json{{"tokens", {1, 2}}} << "\n";
  const json plan = json::parse(say({"warm", "--manifest", manifest, "--dry-run", "--json"}));
  ASSERT_EQ(plan.at("prefixes").size(), 1u);
  EXPECT_EQ(plan.at("prefixes")[0].at("blocks"), 4);
  const json outcome = json::parse(say({"warm", "--manifest", manifest, "--json"}));
  EXPECT_EQ(outcome.at("brought"), 3);
  EXPECT_EQ(outcome.at("not_brought"), 1);
  EXPECT_EQ(stats().at("tiers").at("device").at("blocks"), 3);

  std::ofstream(manifest) << R"({"tokens": [1]})"
                          << "\n"
                          << R"({"prompt": "hello"})"
                          << "\n";
  EXPECT_THAT(refused({"warm", "--manifest", manifest}, 2),
              HasSubstr("manifest.jsonl:2: a prompt as text needs --model"));
  std::ofstream(manifest) << "tokens\n";
  EXPECT_THAT(refused({"warm", "--manifest", manifest}, 2), HasSubstr("manifest.jsonl:1: is no {"));
}

TEST_F(OperatorVerbs, DoctorLooksAtTheDaemonAndItsDisk) {
  start_daemon();
  const std::string config = directory().file("terraced.toml");
  std::ofstream(config)
      << "data_dir = \"" << directory().file("data") << "\"\n"
      << "[arena]\nslab = \"4MiB\"\n[device]\ncapacity = \"32MiB\"\n[disk]\ncapacity = \"64MiB\"\n";
  const json report = json::parse(say({"doctor", "--config", config, "--no-speed", "--json"}));
  EXPECT_EQ(report.at("problems"), 0);
  const auto result_of = [&](const std::string& check) {
    for (const json& one : report.at("checks"))
      if (one.at("check") == check) return one.at("result").get<std::string>();
    return std::string("absent");
  };
  EXPECT_EQ(result_of("config"), "ok");
  EXPECT_EQ(result_of("socket"), "ok");
  EXPECT_EQ(result_of("daemon"), "ok");
  EXPECT_EQ(result_of("space"), "ok");
  EXPECT_EQ(result_of("memory"), "ok");
  EXPECT_EQ(result_of("speed"), "absent");
  EXPECT_THAT(say({"doctor", "--config", config, "--no-speed"}),
              AllOf(HasSubstr("terraced "), HasSubstr("\n0 problems, ")));
}

TEST_F(OperatorVerbs, LsFiltersAndSorts) {
  store_two_prompts();
  ASSERT_TRUE(on_disk(5));
  const auto keys = keys_of(*space_, second_);
  const auto listed = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"ls", "--json"});
    return json::parse(say(std::move(arguments)));
  };
  EXPECT_EQ(listed({}).size(), 5u);
  EXPECT_EQ(listed({"--tier", "disk", "--space", "test model"}).size(), 5u);
  EXPECT_EQ(listed({"--tier", "host"}), json::array());
  EXPECT_EQ(say({"ls", "--tier", "host"}), "there are no such blocks\n");
  EXPECT_EQ(listed({"--space", space_->digest().hex().substr(0, 10)}).size(), 5u);
  const json deep = listed({"--min-depth", "2", "--sort", "depth", "--limit", "2"});
  ASSERT_EQ(deep.size(), 2u);
  EXPECT_EQ(deep[0].at("key"), keys[3].hex());
  EXPECT_EQ(deep[1].at("depth"), 2);
  EXPECT_EQ(listed({"--sort", "prefix", "--limit", "1"})[0].at("key"), keys[0].hex());
  EXPECT_EQ(listed({"--held"}), json::array());
  const auto held = space_->acquire(space_->new_lease(), std::span(keys).first(2), {}, soon());
  EXPECT_EQ(listed({"--held"}).size(), 2u);
  EXPECT_EQ(listed({"--sort", "hits", "--limit", "1"})[0].at("uses"), 2);
  EXPECT_LE(listed({"--sort", "hits", "--reverse"})[0].at("uses"), 1);
  EXPECT_GT(listed({"--sort", "age"})[0].at("created_unix_ms"), 1'600'000'000'000);
  EXPECT_THAT(refused({"ls", "--reverse"}, 2), HasSubstr("--sort"));
  EXPECT_THAT(say({"ls", "--sort", "last-use", "--limit", "1"}),
              AllOf(HasSubstr("test model\n"), HasSubstr("and 4 more; --limit 0 shows all\n")));
  EXPECT_THAT(refused({"ls", "--space", "another"}, 4), HasSubstr("there is no space 'another'"));
  EXPECT_THAT(refused({"ls", "--sort", "color"}, 2), HasSubstr("--sort"));
}

// What every verb says with --json is JSON, and what is gone afterwards goes with --yes only.
TEST_F(OperatorVerbs, SpeakJsonAndAskBeforeTheyDestroy) {
  store_two_prompts();
  ASSERT_TRUE(on_disk(5));
  const std::string key = keys_of(*space_, first_)[2].hex();
  const std::string session =
      std::to_string(json::parse(say({"sessions", "--json"}))[0].at("id").get<int>());
  const std::string tokens = directory().file("tokens");
  std::ofstream(tokens) << "1 2 3";
  struct Line {
    std::vector<std::string> words;
    json::value_t type = json::value_t::object;
    bool destroys = false;
  };
  const std::vector<Line> lines = {
      {{"stats"}},
      {{"top", "--interval", "0.1", "--looks", "1"}},
      {{"ls"}, json::value_t::array},
      {{"tree"}},
      {{"inspect", key}},
      {{"why", "--tokens", tokens}},
      {{"warm", "--all", "--dry-run"}},
      {{"warm", "--all"}},
      {{"pin", key}},
      {{"pins"}, json::value_t::array},
      {{"unpin", key}},
      {{"sessions"}, json::value_t::array},
      {{"config", "check"}},
      {{"config", "show"}, json::value_t::array},
      {{"evict", key}, json::value_t::object, true},
      {{"drop-space", "test model"}, json::value_t::object, true},
      {{"flush"}, json::value_t::object, true},
      {{"kick", session}, json::value_t::object, true},
  };
  for (Line line : lines) {
    const std::string verb = line.words.front();
    line.words.push_back("--json");
    if (line.destroys) {
      const json before = stats().at("tiers");
      EXPECT_THAT(refused(line.words, 2), HasSubstr("nothing done: say --yes")) << verb;
      EXPECT_EQ(stats().at("tiers"), before) << verb;
      line.words.push_back("--yes");
    }
    const ProcessResult result = terrace(line.words);
    EXPECT_EQ(result.status, 0) << verb << ": " << result.errors;
    EXPECT_EQ(result.errors, "") << verb;
    const json answer = json::parse(result.output, nullptr, false);
    EXPECT_EQ(answer.type(), line.type) << verb << ": " << result.output;
  }
}

TEST_F(OperatorVerbs, EvictTakesABlockAndWhatFollowsIt) {
  store_two_prompts();
  ASSERT_TRUE(on_disk(5));
  const auto keys = keys_of(*space_, second_);
  EXPECT_THAT(refused({"evict", keys[2].hex()}, 2), HasSubstr("say --yes"));
  EXPECT_EQ(say({"evict", keys[2].hex().substr(0, 12), "--yes"}), "dropped 2 blocks\n");
  EXPECT_EQ(space_->match(keys, second_, soon())->matched_blocks, 2u);
  EXPECT_EQ(stats().at("tiers").at("disk").at("blocks"), 3);
  ASSERT_EQ(terrace({"pin", keys[1].hex()}).status, 0);
  EXPECT_THAT(refused({"evict", keys[0].hex(), "--yes"}, 1), HasSubstr("pinned"));
}

TEST_F(OperatorVerbs, FlushAndDropSpaceLeaveNothing) {
  store_two_prompts();
  EXPECT_THAT(refused({"drop-space", "test model"}, 2), HasSubstr("say --yes"));
  EXPECT_EQ(say({"drop-space", "test model", "--yes"}), "dropped 5 blocks\n");
  store(*space_, first_);
  EXPECT_THAT(refused({"flush"}, 2), HasSubstr("say --yes"));
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
  EXPECT_THAT(refused({"kick", "99"}, 4), HasSubstr("there is no session 99"));
  EXPECT_THAT(refused({"kick", std::to_string(id)}, 2), HasSubstr("say --yes"));
  EXPECT_EQ(say({"kick", std::to_string(id), "--yes"}), "cut session " + std::to_string(id) +
                                                            " (test, process " +
                                                            std::to_string(::getpid()) + ")\n");
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
