#include "storage/redis/redis_options.h"

#include <algorithm>
#include <charconv>

namespace terrace::storage {

namespace {

Status invalid(std::string message) {
  return Status(StatusCode::invalid_argument, std::move(message));
}

Status check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return invalid(std::string(name) + " is " + std::to_string(value) + "; expected " +
                 std::to_string(least) + " to " + std::to_string(most));
}

Status check_text(const char* name, const std::string& text) {
  if (text.size() > max_redis_text_bytes)
    return invalid(std::string(name) + " is longer than " + std::to_string(max_redis_text_bytes) +
                   " bytes");
  if (std::ranges::any_of(text, [](unsigned char c) { return c <= ' ' || c == 0x7f; }))
    return invalid(std::string(name) + " has a space or a control character in it");
  return {};
}

}  // namespace

std::string to_string(const RedisEndpoint& endpoint) {
  const bool bare_address = endpoint.host.find(':') != std::string::npos;
  return (bare_address ? "[" + endpoint.host + "]" : endpoint.host) + ":" +
         std::to_string(endpoint.port);
}

Result<RedisEndpoint> parse_redis_endpoint(std::string_view text) {
  // What comes before it may be a password, which is told to nobody.
  const bool has_at = text.find('@') != std::string_view::npos;
  const auto none = [text, has_at] {
    const std::string what = has_at ? "what has an @" : "'" + std::string(text) + "'";
    return error(invalid(what + " is no address such as redis.example:6379"));
  };
  if (has_at) return none();
  RedisEndpoint endpoint;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return none();
    endpoint.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    endpoint.host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (endpoint.host.empty() || !check_text("host", endpoint.host).ok()) return none();
  if (port.empty()) return endpoint;
  const char* const end = port.data() + port.size();
  const auto [at, failure] = std::from_chars(port.data() + 1, end, endpoint.port);
  if (port[0] != ':' || failure != std::errc() || at != end || endpoint.port == 0) return none();
  return endpoint;
}

Status validate(const RedisOptions& options) {
  if (options.endpoints.empty() || options.endpoints.size() > max_redis_endpoints)
    return invalid(std::to_string(options.endpoints.size()) + " endpoints; expected 1 to " +
                   std::to_string(max_redis_endpoints));
  const bool cluster = options.mode == RedisMode::cluster;
  if (!cluster && options.endpoints.size() > 1)
    return invalid("several endpoints, but mode is standalone");
  if (cluster && options.database != 0) return invalid("a cluster has no database but 0");
  for (const RedisEndpoint& endpoint : options.endpoints) {
    if (endpoint.host.empty() || endpoint.port == 0)
      return invalid("an endpoint without a host or a port");
    if (Status host = check_text("host", endpoint.host); !host.ok()) return host;
  }
  if (options.key_prefix.empty()) return invalid("key_prefix is empty");
  if (options.key_prefix.find_first_of("{}") != std::string::npos)
    return invalid("key_prefix has a brace in it, which would put every key into one slot");
  if (!options.user.empty() && options.password.empty()) return invalid("a user without password");
  const RedisTlsOptions& tls = options.tls;
  if (tls.certificate_file.empty() != tls.key_file.empty())
    return invalid("a client certificate and its key are given together or not at all");

  for (const Status& status :
       {check_text("key_prefix", options.key_prefix), check_text("user", options.user),
        check_range("database", options.database, 0, max_redis_database),
        check_range("connect_timeout_ms", options.connect_timeout_ms, 1, max_redis_timeout_ms),
        check_range("request_timeout_ms", options.request_timeout_ms, 1, max_redis_timeout_ms),
        check_range("ttl_ms", options.ttl_ms, 0, std::int64_t{366} * 86'400'000),
        check_range("connections_per_server", options.connections_per_server, 1,
                    max_redis_connections),
        check_range("max_queued_requests", options.max_queued_requests, 1, 1 << 20),
        check_range("max_value_bytes", static_cast<std::int64_t>(options.max_value_bytes),
                    record_header_bytes + 1, max_block_bytes + record_header_bytes),
        check_range("breaker_failures", options.breaker_failures, 1, 1000),
        check_range("breaker_open_ms", options.breaker_open_ms, 1, max_redis_timeout_ms),
        check_range("breaker_max_open_ms", options.breaker_max_open_ms, options.breaker_open_ms,
                    max_redis_timeout_ms),
        check_range("write_pause_ms", options.write_pause_ms, 0, max_redis_timeout_ms),
        check_range("map_refresh_ms", options.map_refresh_ms, 1, max_redis_timeout_ms),
        check_range("negative_ttl_ms", options.negative_ttl_ms, 0, max_redis_timeout_ms),
        check_range("negative_entries", static_cast<std::int64_t>(options.negative_entries), 0,
                    1 << 24)})
    if (!status.ok()) return status;
  if (options.max_in_flight_bytes < mib) return invalid("max_in_flight_bytes is less than 1 MiB");
  return {};
}

}  // namespace terrace::storage
