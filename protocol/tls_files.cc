#include "protocol/tls_files.h"

#include <optional>

#include "core/secret_file.h"

namespace terrace::protocol {
namespace {

// More is no file of certificates.
constexpr std::size_t max_pem_bytes = 1 << 20;

// Runs what KJ does with a file's text; what it throws may quote that.
template <typename Make>
auto parse_pem(const std::string& path, Make make) -> Result<decltype(make())> {
  std::optional<decltype(make())> made;
  if (kj::runCatchingExceptions([&] { made.emplace(make()); }) == nullptr) return std::move(*made);
  return error(StatusCode::invalid_argument, path + " does not hold what it should, in PEM");
}

Result<kj::Own<kj::TlsContext>> make_context(const TlsFiles& files,
                                             kj::TlsContext::Options options) {
  options.minVersion = kj::max(options.minVersion, kj::TlsVersion::TLS_1_2);
  std::optional<kj::TlsCertificate> ca;
  if (!files.ca_file.empty()) {
    const auto text = read_small_file(files.ca_file, max_pem_bytes);
    if (!text) return error(text.error());
    auto certificate =
        parse_pem(files.ca_file, [&] { return kj::TlsCertificate(kj::StringPtr(text->c_str())); });
    if (!certificate) return error(certificate.error());
    ca.emplace(std::move(*certificate));
    options.useSystemTrustStore = false;
    options.trustedCertificates = kj::arrayPtr(&*ca, 1);
  }
  std::optional<kj::TlsKeypair> own;
  if (!files.certificate_file.empty()) {
    const auto certificate_text = read_small_file(files.certificate_file, max_pem_bytes);
    if (!certificate_text) return error(certificate_text.error());
    const auto key_text = read_secret_text(files.key_file, max_pem_bytes);
    if (!key_text) return error(key_text.error());
    auto certificate = parse_pem(files.certificate_file, [&] {
      return kj::TlsCertificate(kj::StringPtr(certificate_text->c_str()));
    });
    if (!certificate) return error(certificate.error());
    auto key = parse_pem(files.key_file,
                         [&] { return kj::TlsPrivateKey(kj::StringPtr(key_text->c_str())); });
    if (!key) return error(key.error());
    own.emplace(kj::TlsKeypair{std::move(*key), std::move(*certificate)});
    options.defaultKeypair = *own;
  }
  return parse_pem(files.certificate_file.empty() ? files.ca_file : files.certificate_file,
                   [&] { return kj::heap<kj::TlsContext>(options); });
}

}  // namespace

Result<kj::Own<kj::TlsContext>> make_tls_client(const TlsFiles& files) {
  return make_context(files, {});
}

Result<kj::Own<kj::TlsContext>> make_tls_server(const TlsFiles& files, kj::Timer& timer,
                                                kj::Duration limit) {
  kj::TlsContext::Options options;
  options.useSystemTrustStore = false;
  options.verifyClients = !files.ca_file.empty();
  options.timer = timer;
  options.acceptTimeout = limit;
  return make_context(files, options);
}

}  // namespace terrace::protocol
