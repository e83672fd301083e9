// Who may do what: what a connection shows of itself, held against the rules of the configuration.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/access_options.h"
#include "core/sha256.h"
#include "core/status.h"

namespace terrace::daemon {

// What the kernel, or TLS, says of whoever is at the other end.
struct Credentials {
  std::string socket;        // name of the Unix socket; "" for TCP
  pid_t pid = 0;             // on a Unix socket; 0: of another pid namespace
  std::optional<uid_t> uid;  // of the process, on a Unix socket
  std::vector<gid_t> gids;   // likewise; all of its groups
  std::string certificate;   // common name of a certificate that was verified; "" for none
  std::string address;       // for the log

  bool local() const { return !socket.empty(); }
};

// What a login gives.
struct Grant {
  bool worker = false, operate = false, view = false;
  // Whose spaces it is about, as their descriptors name it; nothing: anybody's.
  std::optional<std::string> tenant;
  std::string rules;  // for the log: the names of those that apply

  bool gives_the_same_as(const Grant& other) const {
    return worker == other.worker && operate == other.operate && view == other.view &&
           tenant == other.tenant;
  }
};

// What a login shows; nothing for no token.
std::optional<Digest> digest_of_token(std::string_view token);

class AccessPolicy {
 public:
  // Looks up users and groups and reads the files of tokens. invalid_argument for names that nobody
  // has and for files that are no secret: readable to all, or with a line that is too short. No
  // message quotes a token.
  static Result<AccessPolicy> load(const config::AccessOptions& options);

  // failed_precondition, with a reason for the log, if no rule applies: whoever shows a token must
  // not learn of what is known of it. `token` is the SHA-256 of one that is shown, which must be
  // that of some rule. Without a token, and a rule that applies, the daemon's user
  // and root get everything on its Unix sockets, and while there are no rules at all so does
  // everybody whom a socket's file lets in.
  Result<Grant> login(const Credentials& credentials, const std::optional<Digest>& token) const;

  // How the spaces of a tenant are named.
  const std::string& shared_name(const std::string& tenant) const;
  const std::vector<config::TenantGroup>& tenant_groups() const { return tenant_groups_; }

 private:
  struct Rule {
    config::AccessRule options;
    std::vector<uid_t> uids;
    std::vector<gid_t> gids;
    std::optional<Digest> token;  // SHA-256 of it
  };

  static bool applies(const Rule& rule, const Credentials& credentials);

  std::vector<Rule> rules_;
  std::vector<config::TenantGroup> tenant_groups_;
};

// Of a user or a group, by name or number.
Result<uid_t> find_user(const std::string& name);
Result<gid_t> find_group(const std::string& name);

}  // namespace terrace::daemon
