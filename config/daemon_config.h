// The options of terraced. config/terraced.toml is the same list with a comment each.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/access_options.h"
#include "config/http_address.h"
#include "config/setting.h"
#include "config/source.h"
#include "core/bytes.h"
#include "core/status.h"

namespace terrace::config {

// When a sealed block of the device arena, which workers can write to, is checked against its
// checksum.
enum class DeviceVerify { never, first_use, always };
// When a block is copied to a lower tier: once it is sealed, ahead of its eviction from above, or
// when it is used a second time.
enum class WritePolicy { behind, on_evict, on_second_use };
// `emulated`: memory of the machine. `automatic`: the first GPU that can be used, else emulated.
enum class DeviceKind { emulated, automatic, cuda };
enum class DiskCodec { raw, zstd, planes };
// `automatic`: io_uring where the kernel allows it, else threads.
enum class DiskRing { automatic, io_uring, threads };
// Which blocks leave a full tier first.
enum class EvictionPolicy { reuse_index, lru };
// One server, or a Redis Cluster that some of its nodes are named of.
enum class RedisMode { standalone, cluster };
enum class LogLevel { trace, debug, info, warning, error };
// For people, or one JSON object a line.
enum class LogFormat { text, json };

struct DeviceOptions {
  DeviceKind kind = DeviceKind::emulated;
  int cuda_ordinal = 0;  // with DeviceKind::cuda
  std::uint64_t capacity_bytes = 1 * gib;
  DeviceVerify verify = DeviceVerify::first_use;
  // What processes may still use of an earlier daemon's arena when this one takes its own. Nothing
  // ("auto"): as much as leaves room for it.
  std::optional<std::uint64_t> overlap_bytes;
};

struct HostOptions {
  // Nothing ("auto"): 1 GiB beside a device with memory of its own, no host tier where device
  // memory is host memory. 0: no host tier.
  std::optional<std::uint64_t> capacity_bytes;
  WritePolicy write = WritePolicy::on_evict;
};

struct ArenaOptions {
  std::uint64_t slab_bytes = 64 * mib;
  // Fractions of an arena that can be had without I/O: copying down starts below the low one and
  // ends at the high one.
  double clean_low = 0.05, clean_high = 0.1;
};

struct DiskOptions {
  bool enabled = true;
  std::vector<std::string> data_dirs;  // none: data_dir
  std::uint64_t capacity_bytes = 8 * gib;
  WritePolicy write = WritePolicy::behind;
  // What may be written in an hour and a day of UTC before `behind` acts as on_second_use; 0: no
  // limit.
  std::uint64_t write_behind_hour_bytes = 64 * gib, write_behind_day_bytes = 256 * gib;
  DiskCodec codec = DiskCodec::planes;
  int zstd_level = 1;
  DiskRing ring = DiskRing::automatic;
};

struct RedisTlsOptions {
  bool enabled = false;
  std::string ca_file, certificate_file, key_file;  // PEM; ca_file "": the system's
  std::string server_name;                          // "": the endpoint's host
  bool verify = true;
};

// The tier that other hosts share.
struct RedisOptions {
  std::vector<std::string> endpoints;  // "host:port"; none: no such tier
  RedisMode mode = RedisMode::standalone;
  std::string user, password;  // also out of user_file, password_file
  RedisTlsOptions tls;
  unsigned database = 0;
  std::string key_prefix = "terrace";
  std::chrono::seconds ttl{24 * 3600};  // 0: values stay until the server drops them
  WritePolicy write = WritePolicy::on_second_use;
  std::chrono::milliseconds connect_timeout{500}, request_timeout{1000};
  // What a match, and what an acquire, waits for it at most.
  std::chrono::milliseconds lookup_timeout{10}, load_timeout{100};
  unsigned connections = 3;  // to each server, for values
  std::uint64_t max_in_flight_bytes = 64 * mib;
};

// "auto" pins may take this part of the lowest tier.
constexpr std::uint64_t auto_pin_divisor = 4;

struct PinsOptions {
  std::optional<std::uint64_t> capacity_bytes;  // nothing: "auto"
};

// What a tenant may take of each tier; nothing: as much as there is.
struct TenantOptions {
  std::string name;  // "*": all who are not named, together
  std::optional<std::uint64_t> device_bytes, host_bytes, disk_bytes;
};
// Choosing whose block goes looks at every tenant.
constexpr std::size_t max_tenants = 256;

// How old the blocks of some spaces may become.
struct SpaceOptions {
  std::string name;                 // a label, the first digits of a digest, or "*"
  std::chrono::seconds max_age{0};  // 0: any age
};
constexpr std::size_t max_space_options = 256;

struct EvictionOptions {
  EvictionPolicy policy = EvictionPolicy::reuse_index;
};

// What is past one of these is refused, and the answer names it.
struct DaemonLimits {
  std::uint32_t max_connections = 512;  // each costs a descriptor or two
  std::uint32_t max_sessions = 256;
  std::uint32_t max_requests_per_connection = 1024;  // that have no answer yet
  std::uint32_t max_tokens_per_call = 1u << 20;
  std::uint32_t max_keys_per_call = 16384;
  std::uint32_t max_leases_per_session = 4096;
  // The cache keeps every space for as long as it runs.
  std::uint32_t max_spaces_per_session = 64;
  std::uint32_t max_spaces_per_tenant = 1024;  // of logins that have one
  std::uint32_t max_waiting_acquires_per_session = 256;
  std::uint64_t max_queued_bytes = 64 * mib;   // answers that a session has not read
  std::uint64_t max_message_bytes = 16 * mib;  // one call
  // From connecting to the end of login.
  std::chrono::milliseconds login_deadline{10'000};
  // Of a session whose engine has KV memory of its own; 0: no such sessions.
  std::uint64_t staging_per_session_bytes = 64 * mib;
};

// For people and their tools: figures, a page. Nothing can be changed through it.
struct HttpOptions {
  std::optional<HttpAddress> listen = HttpAddress{"127.0.0.1", 9470, true};  // nothing: "off"
  bool allow_remote = false;
};

// For clients on other hosts.
struct TcpOptions {
  std::optional<HttpAddress> listen;  // nothing: "off"
  // PEM files: what to show, and whose certificates clients must show ("": none is asked for).
  std::string certificate_file, key_file, client_ca_file;
  bool plain = false;  // without TLS; on loopback only
};

// Whose tokens are shown as text.
struct ModelOptions {
  std::string name;   // in the configuration
  std::string label;  // as workers call it: the label of their spaces
  std::string file;   // GGUF
};
constexpr std::size_t max_models = 32;

struct LogOptions {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
  // A match or an acquire that takes longer is a line of the log; 0: none is.
  std::chrono::milliseconds slow{0};
};

struct DaemonConfig {
  std::string socket_path;  // default_socket_path() unless set
  std::string data_dir;     // default_data_dir() unless set
  AccessOptions access;
  std::chrono::milliseconds request_budget{200};
  std::chrono::seconds drain_deadline{30};
  DeviceOptions device;
  HostOptions host;
  ArenaOptions arena;
  DiskOptions disk;
  RedisOptions redis;
  PinsOptions pins;
  std::vector<TenantOptions> tenants;
  std::vector<SpaceOptions> spaces;
  EvictionOptions eviction;
  DaemonLimits limits;
  HttpOptions http;
  TcpOptions tcp;
  std::vector<ModelOptions> models;
  LogOptions log;
};

// The defaults, then the file if one is given, then the overrides. invalid_argument with every
// problem in one line, "FILE:LINE: KEY: found …, expected …" each, and no secret; io_error if the
// file, or one that holds a secret, cannot be read.
// `settings`, if not null, gets what every option is in the end and where that comes from; a secret
// is not among it.
Result<DaemonConfig> load_daemon_config(const std::optional<std::filesystem::path>& file,
                                        std::span<const Override> overrides,
                                        std::vector<Setting>* settings = nullptr);

}  // namespace terrace::config
