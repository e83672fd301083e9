// Who gets what by logging in, and that nobody gets anything without.
#include <gmock/gmock.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "cache_daemon/access_policy.h"
#include "cache_daemon/limits.h"
#include "tests/cache_daemon/protocol_fixture.h"
#include "tests/support/process.h"

namespace terrace::daemon {
namespace {

using config::AccessOptions;
using config::AccessRule;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* token_a = "a token of tenant a, long enough";
constexpr const char* token_b = "a token of tenant b, long enough";

std::string secret_file(const test_support::TempDir& directory, const std::string& name,
                        const std::string& line) {
  const std::string path = directory.file(name);
  std::ofstream(path) << line << "\n";
  ::chmod(path.c_str(), 0600);
  return path;
}

Credentials process_of(uid_t uid, std::vector<gid_t> gids = {}, std::string socket = "main") {
  return {.socket = std::move(socket), .uid = uid, .gids = std::move(gids)};
}

std::string refused(const AccessPolicy& policy, const Credentials& credentials,
                    std::string_view token = {}) {
  const auto grant = policy.login(credentials, digest_of_token(token));
  return grant ? "granted by " + grant->rules : grant.error().message();
}

class AccessPolicyTest : public ::testing::Test {
 protected:
  AccessRule& add(const std::string& name) {
    AccessRule& rule = options_.rules.emplace_back();
    rule.name = name;
    return rule;
  }
  AccessPolicy policy() {
    auto policy = AccessPolicy::load(options_);
    EXPECT_TRUE(policy.has_value()) << policy.error().message();
    return std::move(*policy);
  }
  std::string load_error() {
    const auto policy = AccessPolicy::load(options_);
    return policy ? "no error" : policy.error().message();
  }

  test_support::TempDir directory_;
  AccessOptions options_;
};

TEST_F(AccessPolicyTest, WithoutRulesTheSocketsFileDecidesAndWithThemTheyDo) {
  const auto everything = [](const Result<Grant>& grant) {
    return grant && grant->worker && grant->operate && grant->view && !grant->tenant;
  };
  EXPECT_TRUE(everything(policy().login(process_of(4711), {})));
  // Over TCP nobody is known by a number.
  EXPECT_THAT(refused(policy(), {.address = "192.0.2.1"}), HasSubstr("no rule"));
  AccessRule& rule = add("somebody");
  rule.users = {"4712"};
  rule.worker = true;
  EXPECT_THAT(refused(policy(), process_of(4711)), HasSubstr("user 4711"));
  for (const uid_t uid : {::geteuid(), uid_t{0}})
    EXPECT_TRUE(everything(policy().login(process_of(uid), {})));
}

TEST_F(AccessPolicyTest, ARuleAsksForEverythingThatItNames) {
  AccessRule& rule = add("research");
  rule.users = {"4711", "4712"};
  rule.groups = {"100"};
  rule.sockets = {"research"};
  rule.worker = true;
  const AccessPolicy policy = this->policy();
  const auto grant = policy.login(process_of(4712, {5, 100}, "research"), {});
  ASSERT_TRUE(grant.has_value());
  EXPECT_TRUE(grant->worker && !grant->operate && !grant->view);
  EXPECT_THAT(refused(policy, process_of(4713, {100}, "research")), HasSubstr("no rule"));
  EXPECT_THAT(refused(policy, process_of(4711, {101}, "research")), HasSubstr("no rule"));
  EXPECT_THAT(refused(policy, process_of(4711, {100}, "main")), HasSubstr("no rule"));
}

TEST_F(AccessPolicyTest, ARuleThatNamesTheOwnerTakesThePlaceOfWhatHeHasWithout) {
  AccessRule& rule = add("me");
  rule.users = {std::to_string(::geteuid())};
  rule.read_only = true;
  rule.tenant = "research";
  const auto grant = policy().login(process_of(::geteuid()), {});
  ASSERT_TRUE(grant.has_value());
  EXPECT_TRUE(!grant->worker && !grant->operate && grant->view);
  EXPECT_EQ(grant->tenant, "research");
}

TEST_F(AccessPolicyTest, RolesOfSeveralRulesAddUpAndTenantsMustAgree) {
  AccessRule& one = add("one");
  one.users = {"4711"};
  one.worker = true;
  one.tenant = "research";
  AccessRule& two = add("two");
  two.groups = {"100"};
  two.operate = true;
  auto grant = policy().login(process_of(4711, {100}), {});
  ASSERT_TRUE(grant.has_value());
  EXPECT_TRUE(grant->worker && grant->operate && grant->view);
  EXPECT_EQ(grant->tenant, "research");

  options_.rules[1].tenant = "teaching";
  EXPECT_THAT(refused(policy(), process_of(4711, {100})), HasSubstr("disagree"));
  options_.tenant_groups = {{"lab", {"research", "teaching"}}};
  grant = policy().login(process_of(4711, {100}), {});
  ASSERT_TRUE(grant.has_value());
  EXPECT_EQ(grant->tenant, "lab");
}

TEST_F(AccessPolicyTest, ATokenMustBeThatOfARuleAndIsNeverRepeated) {
  AccessRule& rule = add("remote");
  rule.token_file = secret_file(directory_, "token", token_a);
  rule.worker = true;
  const AccessPolicy policy = this->policy();
  EXPECT_TRUE(policy.login({.address = "192.0.2.1"}, digest_of_token(token_a)).has_value());
  for (const std::string wrong :
       {token_b, "", "a token of tenant a, long enoug", "a token of tenant a, long enough "}) {
    const std::string why = refused(policy, {.address = "192.0.2.1"}, wrong);
    EXPECT_THAT(why, HasSubstr("no rule"));
    if (!wrong.empty()) {
      EXPECT_THAT(why, Not(HasSubstr(wrong)));
    }
  }
  // Whoever may do everything without a token may do nothing with a wrong one.
  EXPECT_THAT(refused(policy, process_of(0), token_b), HasSubstr("no rule"));
}

TEST_F(AccessPolicyTest, RefusesTokensThatAreNoSecrets) {
  AccessRule& rule = add("remote");
  rule.worker = true;
  rule.token_file = directory_.file("absent");
  EXPECT_THAT(load_error(), HasSubstr("access.remote.token_file"));
  rule.token_file = secret_file(directory_, "token", token_a);
  ::chmod(rule.token_file.c_str(), 0644);
  EXPECT_THAT(load_error(), AllOf(HasSubstr("chmod o="), Not(HasSubstr(token_a))));
  rule.token_file = secret_file(directory_, "short", "0123456789abcde");
  EXPECT_THAT(load_error(), AllOf(HasSubstr("less than 16"), Not(HasSubstr("0123"))));
  rule.token_file = secret_file(directory_, "empty", "");
  EXPECT_THAT(load_error(), HasSubstr("empty"));
  rule.token_file = directory_.path();
  EXPECT_THAT(load_error(), HasSubstr("not a regular file"));
}

TEST_F(AccessPolicyTest, NamesThatNobodyHasAreAMistake) {
  add("who").users = {"nobody-of-this-name"};
  EXPECT_THAT(load_error(), HasSubstr("access.who.users: there is no user"));
}

// The same, over a real socket.
class LoginTest : public ProtocolFixture {
 protected:
  static std::string of_me(const std::string& what) { return "access.me." + what; }
  static std::string my_user() { return of_me("users=[\"" + std::to_string(::geteuid()) + "\"]"); }

  template <typename Promise>
  std::string error_of(Promise&& promise) {
    KJ_IF_MAYBE (exception, kj::runCatchingExceptions([&] { promise.wait(io_.waitScope); })) {
      return exception->getDescription().cStr();
    }
    return "no error";
  }

  bool is_cut(Connection& connection) {
    return connection.rpc.onDisconnect()
        .then([] { return true; })
        .exclusiveJoin(io_.provider->getTimer().afterDelay(patience.count() * kj::SECONDS).then([] {
          return false;
        }))
        .wait(io_.waitScope);
  }
};

TEST_F(LoginTest, NothingIsReachableWithout) {
  start_daemon();
  const auto stranger = connect_without_login();
  EXPECT_THAT(error_of(stranger->daemon.pingRequest().send()), HasSubstr("login"));
  const auto answer = wait(stranger->daemon.infoRequest().send());
  EXPECT_EQ(answer.getInfo().getProtocolVersion(), protocol::PROTOCOL_VERSION);
  EXPECT_GT(answer.getInfo().getBootId().size(), 0u);
  EXPECT_EQ(answer.getInfo().getPid(), 0u);
  // What clients of version 2 call first.
  EXPECT_THAT(error_of(stranger->daemon.openSessionBefore3Request().send()),
              HasSubstr("version 2 of the protocol"));
  EXPECT_THAT(error_of(stranger->daemon.openOperatorBefore3Request().send()),
              HasSubstr("version 2 of the protocol"));
  auto other = login_request(*stranger);
  other.setProtocolVersion(protocol::PROTOCOL_VERSION + 1);
  EXPECT_THAT(error_of(other.send()), HasSubstr("must be of one release"));

  const auto friendly = connect();
  open_session(*friendly);
  EXPECT_THAT(error_of(login_request(*friendly).send()), HasSubstr("logged in already"));
}

// With the limits as they are by default, which leave 16 MiB to who has logged in.
TEST_F(LoginTest, BeforeItAMessageMayNotBeLarge) {
  start_daemon();
  const auto stranger = connect_without_login();
  auto large = stranger->daemon.pingRequest();
  large.initData(max_message_bytes_before_login + 1);
  const auto ignored = large.send();
  EXPECT_TRUE(is_cut(*stranger));
}

TEST_F(LoginTest, GivesTheRolesOfTheRulesAndSaysWhichIsMissing) {
  start_daemon({my_user(), of_me("roles=[\"read_only\"]")});
  const auto viewer = connect_without_login();
  auto login = wait(login_request(*viewer).send());
  EXPECT_FALSE(fails(login.getViewer().statsRequest().send()));
  EXPECT_FALSE(fails(login.getViewer().listPinsRequest().send()));
  EXPECT_THAT(error_of(login.getWorker().openSessionRequest().send()),
              HasSubstr("has not the role \"worker\""));
  auto pin = login.getOperator().pinRequest();
  pin.initKey(32);
  EXPECT_THAT(error_of(pin.send()), HasSubstr("has not the role \"operator\""));
  // Not even what a viewer may do.
  EXPECT_THAT(error_of(login.getOperator().statsRequest().send()), HasSubstr("operator"));
}

TEST_F(LoginTest, AnOperatorMayLookButIsNoWorker) {
  start_daemon({my_user(), of_me("roles=[\"operator\"]")});
  const auto operator_only = connect();
  EXPECT_EQ(stats(*operator_only).at("sessions"), 0);
  EXPECT_TRUE(fails(operator_only->worker.openSessionRequest().send()));
}

TEST_F(LoginTest, WhoShowsWrongTokensIsCutAndTheDaemonGoesOn) {
  const std::string file = secret_file(directory_, "token", token_a);
  start_daemon({of_me("token_file=\"" + file + "\""), of_me("roles=[\"worker\"]")});
  const auto guesser = connect_without_login();
  for (int i = 0; i < 2; ++i) {
    auto wrong = login_request(*guesser);
    wrong.setToken(token_b);
    EXPECT_THAT(error_of(wrong.send()), HasSubstr("no rule of [access] is for this client"));
  }
  auto last = login_request(*guesser);
  last.setToken(token_b);
  const auto ignored = last.send();
  EXPECT_TRUE(is_cut(*guesser));

  const auto honest = connect_without_login();
  auto right = login_request(*honest);
  right.setToken(token_a);
  EXPECT_FALSE(fails(right.send().getWorker().openSessionRequest().send()));
  EXPECT_THAT(daemon_->log(), AllOf(Not(HasSubstr(token_a)), Not(HasSubstr(token_b))));
}

// What is said of a token that is right, and for others only, is what is said of any.
TEST_F(LoginTest, ARefusalDoesNotTellThatATokenIsKnown) {
  const std::string file = secret_file(directory_, "token", token_a);
  start_daemon({of_me("token_file=\"" + file + "\""), of_me("users=[\"4711\"]"),
                of_me("roles=[\"worker\"]")});
  const auto refusal_of = [&](const char* token) {
    const auto guesser = connect_without_login();
    auto request = login_request(*guesser);
    request.setToken(token);
    return error_of(request.send());
  };
  EXPECT_THAT(refusal_of(token_a), HasSubstr("no rule of [access]"));
  EXPECT_EQ(refusal_of(token_a), refusal_of(token_b));
  EXPECT_THAT(daemon_->log(), HasSubstr("this token is not for this way of connecting"));
}

TEST_F(LoginTest, TokensAreReadAgainAndWhoseIsGoneIsCut) {
  const std::string file = secret_file(directory_, "token", token_a);
  start_daemon({of_me("token_file=\"" + file + "\""), of_me("roles=[\"worker\"]")});
  const auto log_in = [&](const char* token) {
    auto connection = connect_without_login();
    auto request = login_request(*connection);
    request.setToken(token);
    connection->worker = request.send().getWorker();
    return connection;
  };
  const auto by_user = connect(), by_a = log_in(token_a);
  open_session(*by_a);
  // One that cannot be read changes nothing.
  const auto reload = [&](const std::string& line) {
    daemon_->signal(SIGHUP);
    return test_support::wait_until([&] { return daemon_->log().find(line) != std::string::npos; },
                                    patience);
  };
  ::chmod(file.c_str(), 0644);
  EXPECT_TRUE(reload("everything stays as it is: access.me.token_file")) << daemon_->log();
  EXPECT_FALSE(fails(by_a->daemon.pingRequest().send()));

  secret_file(directory_, "token", token_b);
  daemon_->signal(SIGHUP);
  EXPECT_TRUE(is_cut(*by_a));
  EXPECT_TRUE(fails(log_in(token_a)->worker.openSessionRequest().send()));
  EXPECT_FALSE(fails(log_in(token_b)->worker.openSessionRequest().send()));
  EXPECT_FALSE(fails(by_user->daemon.pingRequest().send()));
}

TEST_F(LoginTest, ATenantCannotUseUpTheSpacesOfAll) {
  start_daemon({my_user(), of_me("roles=[\"worker\"]"), of_me("tenant=\"research\""),
                "limits.max_spaces_per_tenant=2"});
  const auto first = connect(), second = connect();
  auto one = open_session(*first), other = open_session(*second);
  EXPECT_FALSE(fails(space_request(one, 1).send()));
  EXPECT_FALSE(fails(space_request(one, 2).send()));
  EXPECT_THAT(error_of(space_request(other, 3).send()),
              HasSubstr("limits.max_spaces_per_tenant = 2: found 3 spaces"));
  EXPECT_FALSE(fails(space_request(other, 2).send()));
}

TEST_F(LoginTest, WhoDoesNotLogInIsCut) {
  start_daemon({"limits.login_deadline_ms=500"});
  const auto friendly = connect();
  open_session(*friendly);
  const auto silent = connect_without_login();
  EXPECT_TRUE(is_cut(*silent));
  EXPECT_FALSE(fails(friendly->daemon.pingRequest().send()));
}

TEST_F(LoginTest, SocketsHaveRulesOfTheirOwn) {
  const std::string path = directory_.file("research.sock");
  start_daemon({"sockets.research.path=\"" + path + "\"", "sockets.research.mode=\"0600\"",
                "socket_mode=\"0666\"", "access.research.sockets=\"research\"",
                "access.research.roles=\"worker\"", "access.research.tenant=\"research\""});
  // On the main one all is as ever; who is answered there finds the others, too.
  EXPECT_EQ(stats(*connect()).at("sessions"), 0);
  struct stat info;
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  ASSERT_EQ(::stat(daemon_->socket_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666u);

  auto stream = client::connect_to_socket(io_, path);
  ASSERT_TRUE(stream.has_value());
  Connection research{kj::mv(*stream)};
  auto login = wait(login_request(research).send());
  EXPECT_STREQ(login.getTenant().cStr(), "research");
  EXPECT_TRUE(fails(login.getViewer().statsRequest().send()));
  EXPECT_FALSE(fails(login.getWorker().openSessionRequest().send()));
  EXPECT_EQ(daemon_->stop(), 0);
  EXPECT_NE(::stat(path.c_str(), &info), 0);
}

}  // namespace
}  // namespace terrace::daemon
