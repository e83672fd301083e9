// Certificates and keys in PEM files, as KJ's TLS takes them.
#pragma once

#include <kj/compat/tls.h>

#include <optional>
#include <string>

#include "core/status.h"

namespace terrace::protocol {

struct TlsFiles {
  // Whom to trust: the first certificate of the file; "": clients trust whom the system trusts,
  // servers ask for no certificate.
  std::string ca_file;
  // What to show: with its intermediates, if any; "": nothing. The key's file must not be open to
  // others.
  std::string certificate_file, key_file;
};

// One side of TLS 1.2 or later. io_error or failed_precondition for files that cannot be read or
// are no secret, invalid_argument for what is no PEM; no message has anything of a key.
Result<kj::Own<kj::TlsContext>> make_tls_client(const TlsFiles& files);
// With a CA every client must show a certificate of it. A handshake may take `limit`.
Result<kj::Own<kj::TlsContext>> make_tls_server(const TlsFiles& files, kj::Timer& timer,
                                                kj::Duration limit);

}  // namespace terrace::protocol
