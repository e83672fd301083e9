#include "cache_daemon/login_server.h"

#include <kj/debug.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "cache_daemon/limits.h"
#include "cache_daemon/operator_answers.h"
#include "cache_daemon/operator_server.h"
#include "cache_daemon/session_server.h"

namespace terrace::daemon {
namespace {

// What a client calls itself, fit for a log line.
std::string printable_name(capnp::Text::Reader name) {
  std::string result(name.begin(), std::min<std::size_t>(name.size(), max_client_name_bytes));
  for (char& c : result)
    if (!std::isprint(static_cast<unsigned char>(c))) c = '?';
  return result.empty() ? "a client" : result;
}

void write_identity(const Context& context, protocol::DaemonInfo::Builder info) {
  info.setBootId(context.boot_id);
  info.setVersion(version);
  info.setProtocolVersion(protocol::PROTOCOL_VERSION);
}

void write_info(const Context& context, protocol::DaemonInfo::Builder info) {
  write_identity(context, info);
  info.setPid(static_cast<std::uint32_t>(::getpid()));
  info.setRequestBudgetMs(static_cast<std::uint32_t>(context.config.request_budget.count()));
}

Status other_version(std::uint32_t client_version) {
  return {StatusCode::failed_precondition,
          "this client speaks version " + std::to_string(client_version) +
              " of the protocol, terraced " + version + " speaks version " +
              std::to_string(protocol::PROTOCOL_VERSION) + ": they must be of one release"};
}

kj::Exception role_missing(const Grant& grant, const char* role) {
  return refusal({StatusCode::failed_precondition, std::string("this login has not the role \"") +
                                                       role + "\": it was given by the rules " +
                                                       grant.rules + " of [access]"});
}

class WorkerServer final : public protocol::Worker::Server {
 public:
  WorkerServer(Context& context, std::shared_ptr<Peer> peer)
      : context_(context), peer_(std::move(peer)) {}

  kj::Promise<void> openSession(OpenSessionContext call) override {
    KJ_REQUIRE(!peer_->session, "this connection has a session already");
    if (!context_.device.ready())
      kj::throwFatalException(KJ_EXCEPTION(OVERLOADED, "terraced has no device tier yet",
                                           context_.device.reason().c_str()));
    auto session = context_.sessions.open(peer_->process, peer_->client_name, peer_->grant->tenant,
                                          [weak = std::weak_ptr(peer_)] {
                                            if (const auto peer = weak.lock())
                                              peer->cut.fulfiller->fulfill();
                                          });
    if (!session) kj::throwFatalException(refusal(session.error()));
    peer_->session = *session;
    auto results = call.getResults();
    results.setSession(kj::heap<SessionServer>(context_, peer_, *session));
    results.setSessionId((*session)->id());
    return kj::READY_NOW;
  }

 private:
  Context& context_;
  std::shared_ptr<Peer> peer_;
};

}  // namespace

kj::Promise<void> LoginServer::ping(PingContext call) {
  KJ_REQUIRE(peer_->grant.has_value(), "a ping comes after login");
  const auto given = call.getParams().getData();
  const auto data = given.slice(0, kj::min(given.size(), call.getParams().getReplyBytes()));
  constexpr std::size_t words_around_data = 8;
  call.getResults(capnp::MessageSize{data.size() / 8 + words_around_data, 0}).setData(data);
  return kj::READY_NOW;
}

kj::Promise<void> LoginServer::info(InfoContext call) {
  auto info = call.getResults().initInfo();
  if (peer_->grant)
    write_info(context_, info);
  else
    write_identity(context_, info);
  return kj::READY_NOW;
}

kj::Promise<void> LoginServer::openSessionBefore3(OpenSessionBefore3Context) {
  return refusal(other_version(2));
}

kj::Promise<void> LoginServer::openOperatorBefore3(OpenOperatorBefore3Context) {
  return refusal(other_version(2));
}

kj::Promise<void> LoginServer::login(LoginContext call) {
  KJ_REQUIRE(!peer_->grant, "this connection has logged in already");
  KJ_REQUIRE(!peer_->logging_in, "one login at a time");
  const auto params = call.getParams();
  if (params.getProtocolVersion() != protocol::PROTOCOL_VERSION) {
    const Status why = other_version(params.getProtocolVersion());
    spdlog::warn("refusing a login of {}: {}", peer_->name(), why.message());
    return refuse(why);
  }
  const auto token = params.getToken();
  const auto shown = digest_of_token({token.begin(), token.size()});
  const auto grant = context_.access.login(peer_->credentials, shown);
  if (!grant) {
    spdlog::warn("refusing a login of {}: {}", peer_->name(), grant.error().message());
    // Whoever guesses a token must not learn that there is something about it.
    return refuse(shown ? Status(StatusCode::failed_precondition,
                                 "no rule of [access] is for this client with this token")
                        : grant.error());
  }
  peer_->client_name = printable_name(params.getClientName());
  peer_->grant = *grant;
  peer_->token = shown;
  if (!peer_->credentials.local()) --context_.strangers;
  spdlog::debug("{} logged in by {}", peer_->name(), grant->rules);

  auto results = call.getResults();
  write_info(context_, results.initInfo());
  if (grant->worker)
    results.setWorker(kj::heap<WorkerServer>(context_, peer_));
  else
    results.setWorker(role_missing(*grant, "worker"));
  if (grant->view)
    results.setViewer(kj::heap<ViewerServer>(context_, peer_));
  else
    results.setViewer(role_missing(*grant, "read_only"));
  if (grant->operate)
    results.setOperator(kj::heap<OperatorServer>(context_, peer_));
  else
    results.setOperator(role_missing(*grant, "operator"));
  if (grant->tenant) {
    results.setTenant(*grant->tenant);
    return kj::READY_NOW;
  }
  std::size_t count = 0;
  for (const auto& group : context_.access.tenant_groups()) count += group.members.size();
  auto sharing = results.initSharing(static_cast<unsigned>(count));
  unsigned at = 0;
  for (const auto& group : context_.access.tenant_groups())
    for (const std::string& member : group.members) {
      sharing[at].setTenant(member);
      sharing[at++].setSharedName(group.name);
    }
  return kj::READY_NOW;
}

kj::Promise<void> LoginServer::refuse(const Status& why) {
  if (++peer_->failed_logins > max_failed_logins) {
    peer_->cut.fulfiller->fulfill();
    // Answered all the same: a call that never ends would outlive its connection.
    return refusal(why);
  }
  peer_->logging_in = true;
  return context_.event_port.getTimer()
      .afterDelay(failed_login_pause.count() * kj::MILLISECONDS)
      .then([peer = peer_, why]() -> kj::Promise<void> {
        peer->logging_in = false;
        return refusal(why);
      });
}

}  // namespace terrace::daemon
