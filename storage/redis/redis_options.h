// What a RedisStore is told when it is made, and its named limits.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/record.h"
#include "core/space.h"
#include "core/status.h"

namespace terrace::storage {

constexpr std::uint16_t redis_default_port = 6379;
constexpr std::size_t max_redis_endpoints = 64;
constexpr std::size_t max_redis_text_bytes = 256;  // of a prefix, a user, a host
constexpr unsigned max_redis_connections = 32;     // for values, to one server
constexpr unsigned max_redis_database = 1u << 16;
constexpr std::int64_t max_redis_timeout_ms = 600'000;

struct RedisEndpoint {
  std::string host;  // a name or an address
  std::uint16_t port = redis_default_port;
  auto operator<=>(const RedisEndpoint&) const = default;
};

// "redis.example:6379", "[::1]:6379".
std::string to_string(const RedisEndpoint& endpoint);
// The same read back; without a port the default one. invalid_argument if it is none.
Result<RedisEndpoint> parse_redis_endpoint(std::string_view text);

enum class RedisMode { standalone, cluster };

struct RedisTlsOptions {
  bool enabled = false;
  std::string ca_file;           // PEM; empty: the system's authorities
  std::string certificate_file;  // of this client, PEM; empty: none is shown
  std::string key_file;          // of that certificate
  std::string server_name;  // that the server's certificate must have; empty: the endpoint's host
  bool verify = true;       // false: any certificate will do
};

struct RedisOptions {
  RedisMode mode = RedisMode::standalone;
  // standalone: the server. cluster: some of its nodes, from which the others are learned.
  std::vector<RedisEndpoint> endpoints = {{"127.0.0.1", redis_default_port}};
  std::string user;      // empty: the default user
  std::string password;  // empty: no AUTH; never logged
  RedisTlsOptions tls;
  unsigned database = 0;  // a cluster has only 0
  // Keys begin with it. No braces: they would put every key into one slot of a cluster.
  std::string key_prefix = "terrace";

  std::int64_t connect_timeout_ms = 500;   // until a server answered its first command
  std::int64_t request_timeout_ms = 1000;  // for writes, and the most for anything else
  std::int64_t ttl_ms = 24 * 3'600'000;    // after which the server drops a value; 0: never

  unsigned connections_per_server = 3;           // for values; one more is for small commands
  std::uint64_t max_in_flight_bytes = 64 * mib;  // of values being sent and received
  unsigned max_queued_requests = 4096;           // what comes on top is rejected
  // A longer value is not received at all. At least a record of the largest block that is asked
  // for.
  std::uint64_t max_value_bytes = max_block_bytes + record_header_bytes;

  unsigned breaker_failures = 3;       // in a row, after which a server is not asked for a while,
  std::int64_t breaker_open_ms = 200;  // at first so long, then twice as long each time,
  std::int64_t breaker_max_open_ms = 5000;  // up to this; each less up to half of it at random
  std::int64_t write_pause_ms = 1000;       // after a server refused to take more
  // cluster: after so long, less up to half of it at random, its map is asked for again, also
  // where nothing says that it changed.
  std::int64_t map_refresh_ms = 60'000;

  // What was not there is not asked for again for so long.
  std::int64_t negative_ttl_ms = 500;
  std::size_t negative_entries = 1 << 16;
};

// invalid_argument that names the field whose value makes no sense.
Status validate(const RedisOptions& options);

}  // namespace terrace::storage
