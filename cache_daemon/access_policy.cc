#include "cache_daemon/access_policy.h"

#include <grp.h>
#include <openssl/crypto.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "core/secret_file.h"

namespace terrace::daemon {
namespace {

// Shorter ones can be guessed.
constexpr std::size_t min_token_bytes = 16;

std::optional<std::uint32_t> as_number(const std::string& text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [read, failure] = std::from_chars(text.data(), end, number);
  if (text.empty() || failure != std::errc() || read != end) return std::nullopt;
  return number;
}

bool named(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::string who(const Credentials& credentials) {
  if (credentials.uid) return "user " + std::to_string(*credentials.uid);
  if (!credentials.certificate.empty()) return "certificate '" + credentials.certificate + "'";
  return "a client without a token";
}

}  // namespace

std::optional<Digest> digest_of_token(std::string_view token) {
  if (token.empty()) return std::nullopt;
  return sha256({reinterpret_cast<const std::uint8_t*>(token.data()), token.size()});
}

Result<uid_t> find_user(const std::string& name) {
  if (const auto number = as_number(name)) return *number;
  // On the main thread only.
  if (const passwd* const entry = ::getpwnam(name.c_str())) return entry->pw_uid;
  return error(StatusCode::invalid_argument, "there is no user '" + name + "'");
}

Result<gid_t> find_group(const std::string& name) {
  if (const auto number = as_number(name)) return *number;
  if (const group* const entry = ::getgrnam(name.c_str())) return entry->gr_gid;
  return error(StatusCode::invalid_argument, "there is no group '" + name + "'");
}

Result<AccessPolicy> AccessPolicy::load(const config::AccessOptions& options) {
  AccessPolicy policy;
  policy.tenant_groups_ = options.tenant_groups;
  for (const config::AccessRule& from : options.rules) {
    Rule& rule = policy.rules_.emplace_back();
    rule.options = from;
    const auto where = [&](const char* key) { return "access." + from.name + "." + key; };
    for (const std::string& name : from.users) {
      const auto uid = find_user(name);
      if (!uid) return error(uid.error().with_context(where("users")));
      rule.uids.push_back(*uid);
    }
    for (const std::string& name : from.groups) {
      const auto gid = find_group(name);
      if (!gid) return error(gid.error().with_context(where("groups")));
      rule.gids.push_back(*gid);
    }
    if (from.token_file.empty()) continue;
    const auto token = read_secret_file(from.token_file);
    if (!token) return error(token.error().with_context(where("token_file")));
    if (token->size() < min_token_bytes)
      return error(StatusCode::invalid_argument,
                   where("token_file") + ": the first line of " + from.token_file +
                       " has less than " + std::to_string(min_token_bytes) + " characters");
    rule.token = digest_of_token(*token);
  }
  return policy;
}

bool AccessPolicy::applies(const Rule& rule, const Credentials& credentials) {
  if (!rule.uids.empty() &&
      (!credentials.uid || std::ranges::find(rule.uids, *credentials.uid) == rule.uids.end()))
    return false;
  if (!rule.gids.empty() && std::ranges::none_of(rule.gids, [&](gid_t gid) {
        return std::ranges::find(credentials.gids, gid) != credentials.gids.end();
      }))
    return false;
  if (!rule.options.sockets.empty() &&
      (!credentials.local() || !named(rule.options.sockets, credentials.socket)))
    return false;
  return rule.options.certificates.empty() ||
         (!credentials.certificate.empty() &&
          named(rule.options.certificates, credentials.certificate));
}

Result<Grant> AccessPolicy::login(const Credentials& credentials,
                                  const std::optional<Digest>& token) const {
  const Digest shown = token.value_or(Digest{});
  bool known = false;
  std::string tenant;
  Grant grant;
  for (const Rule& rule : rules_) {
    // Looks at every rule, and at each byte, whatever it has found: time tells nothing of tokens.
    const bool same =
        token && rule.token && CRYPTO_memcmp(rule.token->data(), shown.data(), shown.size()) == 0;
    known = known || same;
    if ((!token ? rule.token.has_value() : !same) || !applies(rule, credentials)) continue;
    const config::AccessRule& gives = rule.options;
    grant.worker = grant.worker || gives.worker;
    grant.operate = grant.operate || gives.operate;
    grant.view = grant.view || gives.read_only || gives.operate;
    grant.rules += (grant.rules.empty() ? "" : ", ") + gives.name;
    if (gives.tenant.empty()) continue;
    const std::string& name = shared_name(gives.tenant);
    if (grant.tenant && *grant.tenant != name)
      return error(StatusCode::failed_precondition,
                   "the rules " + grant.rules + " of [access] disagree about the tenant");
    grant.tenant = name;
  }
  if (!grant.rules.empty()) return grant;
  if (token)
    return error(StatusCode::failed_precondition,
                 known ? "this token is not for this way of connecting"
                       : "no rule of [access] has this token");
  // Without any rule the socket's file says who is let in, and that is all there is to say.
  if (credentials.local() && credentials.uid &&
      (rules_.empty() || *credentials.uid == 0 || *credentials.uid == ::geteuid()))
    return Grant{.worker = true, .operate = true, .view = true, .tenant = {}, .rules = "none"};
  return error(StatusCode::failed_precondition,
               "no rule of [access] is for " + who(credentials) + " here");
}

const std::string& AccessPolicy::shared_name(const std::string& tenant) const {
  for (const config::TenantGroup& group : tenant_groups_)
    if (named(group.members, tenant)) return group.name;
  return tenant;
}

}  // namespace terrace::daemon
