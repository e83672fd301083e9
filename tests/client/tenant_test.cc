// One tenant never hits, sees or waits for another's blocks, whatever it asks for.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/client/daemon_fixture.h"

namespace terrace::client {
namespace {

using ::testing::HasSubstr;

class TenantTest : public DaemonFixture {
 protected:
  // A rule for whoever shows the token of this name, and settings for it.
  void add(const std::string& name, const std::string& roles, const std::string& tenant) {
    const std::string path = token_file(name);
    std::ofstream(path) << "the secret token of " << name << "\n";
    ::chmod(path.c_str(), 0600);
    settings_.push_back("access." + name + ".token_file=\"" + path + "\"");
    settings_.push_back("access." + name + ".roles=" + roles);
    settings_.push_back("access." + name + ".tenant=\"" + tenant + "\"");
  }
  std::string token_file(const std::string& name) const { return directory().file(name); }

  std::unique_ptr<Client> client_of(const std::string& name) {
    ClientOptions options;
    options.socket_path = socket_path();
    options.identity.token_file = token_file(name);
    auto client = Client::start(std::move(options));
    const Status status = client->wait_connected(soon());
    EXPECT_TRUE(status.ok()) << status.message();
    return client;
  }
  std::unique_ptr<OperatorClient> operator_of(const std::string& name) {
    auto connected = OperatorClient::connect(socket_path(), Identity{token_file(name)});
    EXPECT_TRUE(connected.has_value());
    return std::move(*connected);
  }

  std::vector<std::string> settings_;
};

std::uint32_t matched(Space& space, std::span<const BlockKey> keys, std::span<const Token> tokens,
                      Deadline deadline) {
  const auto match = space.match(keys, tokens, deadline);
  EXPECT_TRUE(match.has_value()) << match.error().message();
  return match ? match->matched_blocks + match->partial_tokens : 0;
}

TEST_F(TenantTest, TheLoginDecidesWhoseBlocksAreHit) {
  add("a", "[\"worker\"]", "a");
  add("b", "[\"worker\"]", "b");
  add("a_too", "[\"worker\"]", "a");
  start_daemon(settings_);
  const auto of_a = client_of("a"), of_b = client_of("b"), of_a_too = client_of("a_too");
  // What a client asks for makes no difference.
  SpaceDescriptor asked = descriptor();
  asked.tenant = "b";
  const auto space_a = of_a->open_space(asked);
  asked.tenant = "a";
  const auto space_b = of_b->open_space(asked);
  const auto space_a_too = of_a_too->open_space(descriptor());
  EXPECT_NE(space_a->digest(), space_b->digest());
  EXPECT_EQ(space_a->digest(), space_a_too->digest());
  SpaceDescriptor named = descriptor();
  named.tenant = "a";
  EXPECT_EQ(space_a->digest(), named.digest());

  const auto tokens = prompt(2);
  store(*space_a, tokens);
  const auto keys_a = keys_of(*space_a, tokens), keys_b = keys_of(*space_b, tokens);
  EXPECT_EQ(matched(*space_a_too, keys_a, tokens, soon()), 2u);
  EXPECT_EQ(matched(*space_b, keys_b, tokens, soon()), 0u);
  // Not even by the other's keys, which can be computed by whoever knows his name.
  EXPECT_EQ(matched(*space_b, keys_a, tokens, soon()), 0u);
  const auto acquired = space_b->acquire(space_b->new_lease(), keys_a, {}, soon());
  ASSERT_TRUE(acquired.has_value());
  EXPECT_TRUE(acquired->empty());

  // Nor does it show that the other is computing something, or can he be made to wait.
  const auto next = prompt(1, 5000);
  const auto next_a = keys_of(*space_a, next);
  const LeaseId lease = space_b->new_lease();
  ASSERT_TRUE(space_b->reserve(lease, next_a, 0, soon()).has_value());
  EXPECT_EQ(space_a->match(next_a, next, soon())->blocks[0], BlockState::absent);
  EXPECT_TRUE(space_a->claim(space_a->new_lease(), next_a, 0, soon())->has_value());
  EXPECT_EQ(space_a_too->match(next_a, next, soon())->blocks[0], BlockState::pending);
}

TEST_F(TenantTest, GroupsShareAndLoginsWithoutATenantNameThem) {
  add("a", "[\"worker\"]", "a");
  add("b", "[\"worker\"]", "b");
  add("any", "[\"worker\"]", "");
  settings_.push_back("tenant_groups.lab.members=[\"a\",\"b\"]");
  start_daemon(settings_);
  const auto of_a = client_of("a"), of_b = client_of("b"), of_any = client_of("any");
  const auto tokens = prompt(2);
  const auto space_a = of_a->open_space(descriptor());
  store(*space_a, tokens);
  const auto space_b = of_b->open_space(descriptor());
  EXPECT_EQ(matched(*space_b, keys_of(*space_b, tokens), tokens, soon()), 2u);

  SpaceDescriptor asked = descriptor();
  asked.tenant = "b";
  const auto as_b = of_any->open_space(asked);
  EXPECT_EQ(matched(*as_b, keys_of(*as_b, tokens), tokens, soon()), 2u);
  asked.tenant = "c";
  const auto as_c = of_any->open_space(asked);
  EXPECT_EQ(as_c->digest(), asked.digest());
  EXPECT_EQ(matched(*as_c, keys_of(*as_c, tokens), tokens, soon()), 0u);
}

TEST_F(TenantTest, OperatorsOfATenantSeeAndTouchHisOnly) {
  add("a", "[\"worker\",\"operator\"]", "a");
  add("b", "[\"worker\",\"operator\"]", "b");
  start_daemon(settings_);
  const auto of_a = client_of("a"), of_b = client_of("b");
  const auto tokens = prompt(2);
  const auto space_a = of_a->open_space(descriptor()), space_b = of_b->open_space(descriptor());
  store(*space_a, tokens);
  store(*space_b, prompt(1, 1000));
  const BlockKey key = keys_of(*space_a, tokens).back();
  // One at a time: a thread has one event loop.
  const auto a = [this] { return operator_of("a"); };
  const auto b = [this] { return operator_of("b"); };
  ASSERT_TRUE(a()->pin(key, std::nullopt, {}, soon()).has_value());

  EXPECT_EQ(a()->list_blocks(std::nullopt, 100, soon())->blocks.size(), 2u);
  EXPECT_EQ(b()->list_blocks(std::nullopt, 100, soon())->blocks.size(), 1u);
  ASSERT_EQ(b()->list_spaces(soon())->size(), 1u);
  EXPECT_EQ(b()->list_spaces(soon())->front().tenant, "b");
  EXPECT_EQ(a()->list_pins(soon())->size(), 1u);
  EXPECT_EQ(b()->list_pins(soon())->size(), 0u);
  EXPECT_NE(*a()->inspect_json(key, soon()), "");
  EXPECT_EQ(*b()->inspect_json(key, soon()), "");
  EXPECT_FALSE(b()->explain_json(space_a->digest(), tokens, soon()).has_value());
  EXPECT_EQ(nlohmann::json::parse(*b()->sessions_json(soon())).size(), 1u);
  EXPECT_THAT(b()->stats_json(soon()).error().message(), HasSubstr("not for logins with a tenant"));

  std::optional<BlockKey> from;
  do {
    const auto page = b()->verify_blocks(from, 1, 1 << 30, false, soon());
    ASSERT_TRUE(page.has_value()) << page.error().message();
    from = page->next;
    // What follows is his, too: a key of others is not told.
    if (from) EXPECT_EQ(b()->list_blocks(from, 1, soon())->blocks.front().key, *from);
  } while (from);

  EXPECT_FALSE(b()->pin(key, std::nullopt, {}, soon()).has_value());
  EXPECT_EQ(b()->unpin(key, soon()).message(), "block " + key.hex() + " is not pinned");
  EXPECT_THAT(b()->unpin(space_a->digest(), soon()).message(), HasSubstr("is not pinned"));
  EXPECT_FALSE(b()->evict(key, soon()).has_value());
  EXPECT_FALSE(b()->drop_space(space_a->digest(), soon()).has_value());
  EXPECT_FALSE(b()->warm(space_a->digest(), keys_of(*space_a, tokens), tokens, Tier::device, soon())
                   .has_value());
  const auto session = nlohmann::json::parse(*a()->sessions_json(soon())).at(0).at("id");
  EXPECT_FALSE(b()->kick(session.get<std::uint64_t>(), soon()).ok());
  EXPECT_EQ(a()->list_pins(soon())->size(), 1u);
  EXPECT_EQ(matched(*space_a, keys_of(*space_a, tokens), tokens, soon()), 2u);
}

}  // namespace
}  // namespace terrace::client
