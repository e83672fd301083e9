#include "client/cli/doctor/service_checks.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "client/cli/text.h"
#include "core/unique_fd.h"

namespace terrace::cli::doctor {
namespace {

int try_to_connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0
             ? 0
             : errno;
}

}  // namespace

SocketFacts gather_socket(const std::string& path) {
  SocketFacts facts;
  facts.path = path;
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    facts.user_may_reach = errno != EACCES;
    return facts;
  }
  facts.exists = true;
  facts.is_socket = S_ISSOCK(status.st_mode);
  if (facts.is_socket) facts.connect_error = try_to_connect(path);
  return facts;
}

Findings check_socket(const SocketFacts& facts) {
  if (!facts.user_may_reach)
    return {{"socket", Severity::problem,
             "this user may not look into the directory of " + facts.path,
             "run this as the daemon's user or a member of its group"}};
  if (!facts.exists)
    return {{"socket", Severity::warning, "no daemon runs: there is no " + facts.path,
             "start one: terraced --socket " + facts.path +
                 ", or name another with --socket or $TERRACE_SOCKET"}};
  if (!facts.is_socket)
    return {{"socket", Severity::problem, facts.path + " is no socket",
             "remove it, or set another socket"}};
  if (facts.connect_error == EACCES)
    return {{"socket", Severity::problem, "this user may not connect to " + facts.path,
             "run this as the daemon's user or a member of its group"}};
  if (facts.connect_error == ECONNREFUSED)
    return {{"socket", Severity::warning,
             "nobody listens at " + facts.path + ": a daemon ended without taking it away",
             "start one: it takes the socket over"}};
  if (facts.connect_error == EAGAIN)
    return {{"socket", Severity::problem,
             "the daemon at " + facts.path + " takes no connections: it is stopped or overloaded",
             "see its log, or restart it"}};
  if (facts.connect_error != 0)
    return {{"socket", Severity::problem,
             "could not connect to " + facts.path + ": " + std::strerror(facts.connect_error),
             "see the daemon's log, or set another socket"}};
  return {{"socket", Severity::ok, "a daemon listens at " + facts.path, ""}};
}

Result<DaemonFacts> read_daemon(const std::string& stats_json, const std::string& own_version) {
  DaemonFacts facts;
  facts.own_version = own_version;
  try {
    const auto stats = nlohmann::json::parse(stats_json);
    facts.version = printable(stats.at("version").get<std::string>());
    facts.pid = stats.at("pid").get<int>();
    for (const auto& [name, tier] : stats.at("tiers").items()) {
      facts.corruptions += tier.at("corruptions").get<std::uint64_t>();
      facts.failures += tier.at("failures").get<std::uint64_t>();
    }
    facts.device_capacity_bytes =
        stats.at("tiers").at("device").at("capacity_bytes").get<std::uint64_t>();
    if (const auto redis = stats.find("redis"); redis != stats.end()) {
      facts.has_redis = true;
      facts.redis_on = redis->at("breaker") == "closed";
      facts.redis_failure = printable(redis->at("last_failure").get<std::string>());
    }
  } catch (const nlohmann::json::exception&) {
    return error(StatusCode::internal, "terraced gave an answer that makes no sense");
  }
  return facts;
}

Findings check_daemon(const DaemonFacts& facts) {
  Findings findings;
  if (facts.version != facts.own_version)
    findings.push_back(
        {"daemon", Severity::warning,
         "terraced " + facts.version + " runs, and this is terrace " + facts.own_version,
         "restart the daemon after an update"});
  else
    findings.push_back(
        {"daemon", Severity::ok,
         "terraced " + facts.version + " answers, process " + std::to_string(facts.pid), ""});
  if (facts.device_capacity_bytes == 0)
    findings.push_back({"device", Severity::warning,
                        "the daemon waits for room for its device tier: workers of an earlier one "
                        "still use theirs",
                        "wait until their requests end, or restart them"});
  if (facts.corruptions > 0)
    findings.push_back(
        {"corruption", Severity::warning,
         counted(facts.corruptions, "block") + " did not verify since the start, and were not used",
         "look at the kernel's log for errors of the disk or of memory"});
  if (facts.failures > 0)
    findings.push_back({"failures", Severity::warning,
                        counted(facts.failures, "operation") + " of tiers failed since the start",
                        "the daemon's log says which"});
  if (facts.has_redis && !facts.redis_on)
    findings.push_back({"redis-tier", Severity::warning,
                        "the daemon does without Redis at the moment: " + facts.redis_failure,
                        "see what the check of Redis says"});
  return findings;
}

Findings check_configuration(const Status& loading, const std::string& file) {
  if (!loading.ok())
    return {{"config", Severity::problem, loading.message(),
             "correct it; 'terrace config show' lists the options"}};
  return {{"config", Severity::ok, file.empty() ? "no file given: the defaults" : file + " is good",
           ""}};
}

}  // namespace terrace::cli::doctor
