#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <string>

#include "storage/redis/stream.h"

namespace terrace::storage::redis {

namespace {

// What OpenSSL last complained about on this thread, for people.
std::string openssl_message() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "no reason given";
}

bool is_address(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

class TlsStream final : public Stream {
 public:
  explicit TlsStream(std::unique_ptr<SSL, FreeSsl> ssl) : ssl_(std::move(ssl)) {}

  Result<bool> secure(bool& wants_write) override {
    ERR_clear_error();
    const int result = SSL_connect(ssl_.get());
    if (result == 1) return true;
    const int failure = SSL_get_error(ssl_.get(), result);
    if (failure == SSL_ERROR_WANT_READ || failure == SSL_ERROR_WANT_WRITE) {
      wants_write = failure == SSL_ERROR_WANT_WRITE;
      return false;
    }
    const long verified = SSL_get_verify_mode(ssl_.get()) == SSL_VERIFY_NONE
                              ? X509_V_OK
                              : SSL_get_verify_result(ssl_.get());
    return error(
        StatusCode::unavailable,
        std::string("TLS: ") +
            (verified != X509_V_OK ? X509_verify_cert_error_string(verified) : openssl_message()));
  }

  Result<Transfer> receive(std::span<const iovec> buffers) override {
    std::size_t sum = 0;
    for (const iovec& one : buffers) {
      std::size_t filled = 0;
      while (filled < one.iov_len) {
        std::size_t bytes = 0;
        ERR_clear_error();
        const int result = SSL_read_ex(ssl_.get(), static_cast<char*>(one.iov_base) + filled,
                                       one.iov_len - filled, &bytes);
        if (result != 1) {
          if (sum + filled > 0) return Transfer{sum + filled, false};
          return outcome(result);
        }
        filled += bytes;
      }
      sum += filled;
    }
    return Transfer{sum, false};
  }

  Result<Transfer> send(std::span<const iovec> buffers) override {
    std::size_t sum = 0;
    for (const iovec& one : buffers) {
      std::size_t sent = 0;
      while (sent < one.iov_len) {
        std::size_t bytes = 0;
        ERR_clear_error();
        const int result = SSL_write_ex(ssl_.get(), static_cast<char*>(one.iov_base) + sent,
                                        one.iov_len - sent, &bytes);
        if (result != 1) {
          if (sum + sent > 0) return Transfer{sum + sent, false};
          return outcome(result);
        }
        sent += bytes;
      }
      sum += sent;
    }
    return Transfer{sum, false};
  }

  bool buffered() const override { return SSL_has_pending(ssl_.get()) == 1; }

 private:
  Result<Transfer> outcome(int result) {
    switch (SSL_get_error(ssl_.get(), result)) {
      case SSL_ERROR_WANT_READ:
        return Transfer{0, false};
      case SSL_ERROR_WANT_WRITE:
        return Transfer{0, true};
      case SSL_ERROR_ZERO_RETURN:
        return error(StatusCode::unavailable, "the server closed the connection");
      default:
        return error(StatusCode::unavailable, "TLS: " + openssl_message());
    }
  }

  std::unique_ptr<SSL, FreeSsl> ssl_;
};

class OpensslContext final : public TlsContext {
 public:
  OpensslContext(std::unique_ptr<SSL_CTX, FreeSsl> context, const RedisTlsOptions& options)
      : context_(std::move(context)), options_(options) {}

  Result<std::unique_ptr<Stream>> make_stream(int socket, const RedisEndpoint& to) override {
    std::unique_ptr<SSL, FreeSsl> ssl(SSL_new(context_.get()));
    if (!ssl || SSL_set_fd(ssl.get(), socket) != 1)
      return error(StatusCode::io_error, "TLS: " + openssl_message());
    const std::string& name = options_.server_name.empty() ? to.host : options_.server_name;
    const bool address = is_address(name);
    bool named = true;
    if (address)
      named = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), name.c_str()) == 1;
    else
      named = SSL_set_tlsext_host_name(ssl.get(), name.c_str()) == 1 &&
              SSL_set1_host(ssl.get(), name.c_str()) == 1;
    if (!named) return error(StatusCode::io_error, "TLS: cannot ask for server " + name);
    return std::make_unique<TlsStream>(std::move(ssl));
  }

 private:
  std::unique_ptr<SSL_CTX, FreeSsl> context_;
  const RedisTlsOptions options_;
};

}  // namespace

Result<std::unique_ptr<TlsContext>> make_tls_context(const RedisTlsOptions& options) {
  ERR_clear_error();
  std::unique_ptr<SSL_CTX, FreeSsl> context(SSL_CTX_new(TLS_client_method()));
  const auto failed = [](const std::string& what) {
    return error(StatusCode::io_error, "TLS: " + what + ": " + openssl_message());
  };
  if (!context) return failed("no context");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  // What is not sent yet may be retried from another place in memory, and in part.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_verify(context.get(), options.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  if (options.ca_file.empty()) {
    if (options.verify && SSL_CTX_set_default_verify_paths(context.get()) != 1)
      return failed("cannot load the system's authorities");
  } else if (SSL_CTX_load_verify_locations(context.get(), options.ca_file.c_str(), nullptr) != 1) {
    return failed("cannot load authorities from " + options.ca_file);
  }
  if (!options.certificate_file.empty()) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), options.certificate_file.c_str()) != 1)
      return failed("cannot load a certificate from " + options.certificate_file);
    if (SSL_CTX_use_PrivateKey_file(context.get(), options.key_file.c_str(), SSL_FILETYPE_PEM) != 1)
      return failed("cannot load a key from " + options.key_file);
    if (SSL_CTX_check_private_key(context.get()) != 1)
      return failed("the key is not that of the certificate");
  }
  return std::make_unique<OpensslContext>(std::move(context), options);
}

}  // namespace terrace::storage::redis
