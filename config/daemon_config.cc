#include "config/daemon_config.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <regex>
#include <string_view>

#include "config/option_reader.h"
#include "config/paths.h"
#include "core/default_paths.h"
#include "core/secret_file.h"

namespace terrace::config {
namespace {

constexpr std::uint64_t max_disk_bytes = 1024 * 1024 * gib;  // 1 PiB
constexpr std::uint64_t min_slab_bytes = 64 * kib;
constexpr std::uint64_t max_slab_bytes = 1 * gib;
constexpr std::int64_t max_request_budget_ms = 60'000;
constexpr std::int64_t max_drain_deadline_s = 3600;
constexpr std::int64_t max_login_deadline_ms = 600'000;
// A block's age is known to within a few minutes.
constexpr std::chrono::seconds min_max_age{600}, max_max_age{100ll * 366 * 86400};
constexpr std::int64_t max_slow_ms = 3600 * 1000;
constexpr std::int64_t max_redis_timeout_ms = 600'000;
constexpr std::int64_t max_redis_ttl_s = 366ll * 24 * 3600;
constexpr unsigned max_redis_database = 1u << 16;
constexpr unsigned max_redis_connections = 32;

// An arena that does not fit into the machine's memory ends in the kernel's out-of-memory killer.
std::uint64_t physical_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGE_SIZE);
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

void read_write_policy(OptionReader& options, std::string_view key, WritePolicy& policy) {
  options.choice(key, policy,
                 {{"behind", WritePolicy::behind},
                  {"on_evict", WritePolicy::on_evict},
                  {"on_second_use", WritePolicy::on_second_use}});
}

constexpr int max_cuda_ordinal = 1023;

void read_accelerator(OptionReader& options, DeviceOptions& device) {
  constexpr std::string_view cuda = "cuda:";
  std::string name = "emulated";
  options.text("device.accelerator", name);
  if (name == "emulated") {
    device.kind = DeviceKind::emulated;
  } else if (name == "auto") {
    device.kind = DeviceKind::automatic;
  } else {
    const char* const end = name.data() + name.size();
    const char* const digits = name.data() + std::min(name.size(), cuda.size());
    const auto [read, failure] = std::from_chars(digits, end, device.cuda_ordinal);
    if (!name.starts_with(cuda) || failure != std::errc() || read != end ||
        device.cuda_ordinal < 0 || device.cuda_ordinal > max_cuda_ordinal)
      options.problem("device.accelerator", "found the text '" + name +
                                                "', expected \"emulated\", \"auto\" or "
                                                "\"cuda:\" and a number");
    device.kind = DeviceKind::cuda;
  }
}

void read_tiers(OptionReader& options, DaemonConfig& config) {
  const std::uint64_t memory = physical_memory_bytes();
  options.bytes("arena.slab", config.arena.slab_bytes, min_slab_bytes, max_slab_bytes);
  read_accelerator(options, config.device);
  // Only a device says how much memory it has.
  const bool may_be_gpu = config.device.kind != DeviceKind::emulated;
  options.bytes("device.capacity", config.device.capacity_bytes, min_slab_bytes,
                may_be_gpu ? max_disk_bytes : memory);
  options.bytes_or_auto("device.overlap", config.device.overlap_bytes, 0, max_disk_bytes);
  options.choice("device.verify", config.device.verify,
                 {{"never", DeviceVerify::never},
                  {"first_use", DeviceVerify::first_use},
                  {"always", DeviceVerify::always}});
  options.bytes_or_auto("host.capacity", config.host.capacity_bytes, 0, memory);
  read_write_policy(options, "host.write", config.host.write);
  options.number("arena.clean_low", config.arena.clean_low, 0, 1);
  options.number("arena.clean_high", config.arena.clean_high, 0, 1);
  if (config.arena.clean_low > config.arena.clean_high)
    options.problem("arena.clean_low", "found more than arena.clean_high, expected at most that");
  options.flag("disk.enabled", config.disk.enabled);
  options.texts("disk.data_dirs", config.disk.data_dirs);
  if (std::ranges::any_of(config.disk.data_dirs, &std::string::empty))
    options.problem("disk.data_dirs", "found no text, expected a directory");
  options.bytes("disk.capacity", config.disk.capacity_bytes, 1 * mib, max_disk_bytes);
  read_write_policy(options, "disk.write", config.disk.write);
  options.bytes("disk.write_behind_per_hour", config.disk.write_behind_hour_bytes, 0,
                max_disk_bytes);
  options.bytes("disk.write_behind_per_day", config.disk.write_behind_day_bytes, 0, max_disk_bytes);
  options.choice(
      "disk.codec", config.disk.codec,
      {{"raw", DiskCodec::raw}, {"zstd", DiskCodec::zstd}, {"planes", DiskCodec::planes}});
  options.integer("disk.zstd_level", config.disk.zstd_level, 1, 19);
  options.choice("disk.ring", config.disk.ring,
                 {{"auto", DiskRing::automatic},
                  {"io_uring", DiskRing::io_uring},
                  {"threads", DiskRing::threads}});

  options.bytes_or_auto("pins.capacity", config.pins.capacity_bytes, 0, max_disk_bytes);
  options.choice("eviction.policy", config.eviction.policy,
                 {{"reuse_index", EvictionPolicy::reuse_index}, {"lru", EvictionPolicy::lru}});

  const std::uint64_t slab = config.arena.slab_bytes;
  if ((slab & (slab - 1)) != 0)
    options.problem("arena.slab", "found " + std::to_string(slab) + ", expected a power of two");
  if (config.device.capacity_bytes < slab)
    options.problem("device.capacity", "found " + format_bytes(config.device.capacity_bytes) +
                                           ", expected at least one slab of " + format_bytes(slab));
  const std::uint64_t host = config.host.capacity_bytes.value_or(0);
  if (host != 0 && host < slab)
    options.problem("host.capacity", "found " + format_bytes(host) +
                                         ", expected 0 or at least one slab of " +
                                         format_bytes(slab));
}

void read_tenants(OptionReader& options, std::vector<TenantOptions>& tenants) {
  for (const std::string& name : options.names_in("tenants")) {
    TenantOptions& tenant = tenants.emplace_back();
    tenant.name = name;
    const std::string section = "tenants." + name;
    options.bytes_or_auto(section + ".device", tenant.device_bytes, 0, max_disk_bytes);
    options.bytes_or_auto(section + ".host", tenant.host_bytes, 0, max_disk_bytes);
    options.bytes_or_auto(section + ".disk", tenant.disk_bytes, 0, max_disk_bytes);
  }
  if (tenants.size() > max_tenants)
    options.problem("tenants", "found " + std::to_string(tenants.size()) +
                                   " tenants, expected at most " + std::to_string(max_tenants));
}

void read_spaces(OptionReader& options, std::vector<SpaceOptions>& spaces) {
  for (const std::string& name : options.names_in("spaces")) {
    SpaceOptions& space = spaces.emplace_back();
    space.name = name;
    options.duration("spaces." + name + ".max_age", space.max_age, min_max_age, max_max_age);
  }
  if (spaces.size() > max_space_options)
    options.problem("spaces", "found " + std::to_string(spaces.size()) +
                                  " spaces, expected at most " + std::to_string(max_space_options));
}

void milliseconds(OptionReader& options, std::string_view key, std::chrono::milliseconds& field) {
  std::int64_t ms = field.count();
  options.integer(key, ms, std::int64_t{1}, max_redis_timeout_ms);
  field = std::chrono::milliseconds(ms);
}

// HOST, HOST:PORT or [ADDRESS]:PORT.
bool is_endpoint(const std::string& text) {
  // The expression is matched recursively; a host's name is shorter anyway.
  constexpr std::size_t max_endpoint_bytes = 300;
  if (text.size() > max_endpoint_bytes) return false;
  static const std::regex form(R"((\[[0-9A-Fa-f:.%]+\]|[^\[\]:@/\s]+)(:([0-9]{1,5}))?)");
  std::smatch parts;
  if (!std::regex_match(text, parts, form)) return false;
  if (!parts[3].matched) return true;
  const int port = std::stoi(parts[3].str());
  return port > 0 && port <= 65535;
}

// What the options of a Redis tier must be together; where it is off they may be anything.
void check_redis(OptionReader& options, const RedisOptions& redis) {
  if (redis.endpoints.empty()) return;
  // An endpoint is not quoted: people write passwords there.
  if (!std::ranges::all_of(redis.endpoints, is_endpoint))
    options.problem("redis.endpoints",
                    "found what is no host and port, expected such as \"redis.example:6379\"");
  if (redis.mode == RedisMode::standalone && redis.endpoints.size() > 1)
    options.problem("redis.endpoints", "found several, expected one: redis.mode is \"standalone\"");
  if (redis.key_prefix.empty() || redis.key_prefix.find_first_of("{} ") != std::string::npos)
    options.problem("redis.prefix",
                    "found no text or a brace or blank in it, expected a short word");
  if (!redis.user.empty() && redis.password.empty())
    options.problem("redis.user", "found a user, expected a password beside it");
  if (redis.tls.certificate_file.empty() != redis.tls.key_file.empty())
    options.problem("redis.tls.certificate_file",
                    "found one of certificate and key, expected both or none");
}

// What lies in a file, in place of an option: its first line. `secret`: others must not read it.
Status read_first_line(OptionReader& options, const std::string& name, const std::string& file_name,
                       bool secret, std::string& text) {
  const std::string option = "redis." + name + "_file";
  if (file_name.empty()) return {};
  if (!text.empty())
    options.problem(option, "found a " + name + " beside it, expected one of the two");
  auto all = secret ? read_secret_text(file_name, max_secret_bytes)
                    : read_small_file(file_name, max_secret_bytes);
  if (!all && all.error().code() == StatusCode::io_error)
    return {StatusCode::io_error, option + ": cannot read " + one_line(file_name)};
  if (!all) {
    options.problem(option, "found that " + one_line(all.error().message()));
    return {};
  }
  text = all->substr(0, all->find_first_of("\r\n"));
  if (text.empty())
    options.problem(option, "found no " + name + " in its first line, expected one");
  return {};
}

Status read_redis(OptionReader& options, RedisOptions& redis) {
  options.texts("redis.endpoints", redis.endpoints);
  if (std::ranges::any_of(redis.endpoints, &std::string::empty))
    options.problem("redis.endpoints", "found no text, expected a host and a port");
  options.choice("redis.mode", redis.mode,
                 {{"standalone", RedisMode::standalone}, {"cluster", RedisMode::cluster}});
  options.text("redis.user", redis.user);
  options.secret("redis.password", redis.password);
  std::string user_file, password_file;
  options.text("redis.user_file", user_file);
  options.text("redis.password_file", password_file);
  options.integer("redis.database", redis.database, 0u, max_redis_database);
  if (redis.mode == RedisMode::cluster && redis.database != 0)
    options.problem("redis.database", "found another than 0, expected 0: a cluster has no other");
  options.text("redis.prefix", redis.key_prefix);
  std::int64_t ttl_s = redis.ttl.count();
  options.integer("redis.ttl_s", ttl_s, std::int64_t{0}, max_redis_ttl_s);
  redis.ttl = std::chrono::seconds(ttl_s);
  read_write_policy(options, "redis.write", redis.write);
  milliseconds(options, "redis.connect_timeout_ms", redis.connect_timeout);
  milliseconds(options, "redis.request_timeout_ms", redis.request_timeout);
  milliseconds(options, "redis.lookup_timeout_ms", redis.lookup_timeout);
  milliseconds(options, "redis.load_timeout_ms", redis.load_timeout);
  options.integer("redis.connections", redis.connections, 1u, max_redis_connections);
  options.bytes("redis.max_in_flight", redis.max_in_flight_bytes, 1 * mib, 64 * gib);
  options.flag("redis.tls.enabled", redis.tls.enabled);
  options.text("redis.tls.ca_file", redis.tls.ca_file);
  options.text("redis.tls.certificate_file", redis.tls.certificate_file);
  options.text("redis.tls.key_file", redis.tls.key_file);
  options.text("redis.tls.server_name", redis.tls.server_name);
  options.flag("redis.tls.verify", redis.tls.verify);

  for (const Status& status :
       {read_first_line(options, "user", user_file, false, redis.user),
        read_first_line(options, "password", password_file, true, redis.password)})
    if (!status.ok()) return status;
  return {};
}

void read_limits(OptionReader& options, DaemonLimits& limits) {
  options.integer("limits.max_connections", limits.max_connections, 1u, 100'000u);
  options.integer("limits.max_requests_per_connection", limits.max_requests_per_connection, 1u,
                  1'000'000u);
  options.integer("limits.max_tokens_per_call", limits.max_tokens_per_call, 1u, 1u << 26);
  options.integer("limits.max_spaces_per_session", limits.max_spaces_per_session, 1u, 100'000u);
  options.integer("limits.max_spaces_per_tenant", limits.max_spaces_per_tenant, 1u, 100'000u);
  options.integer("limits.max_waiting_acquires_per_session",
                  limits.max_waiting_acquires_per_session, 1u, 1'000'000u);
  options.integer("limits.max_sessions", limits.max_sessions, 1u, 100'000u);
  options.integer("limits.max_keys_per_call", limits.max_keys_per_call, 1u, 1'000'000u);
  options.integer("limits.max_leases_per_session", limits.max_leases_per_session, 1u, 1'000'000u);
  options.bytes("limits.max_queued_bytes", limits.max_queued_bytes, 64 * kib, 4 * gib);
  options.bytes("limits.max_message_bytes", limits.max_message_bytes, 64 * kib, 1 * gib);
  std::int64_t login_deadline_ms = limits.login_deadline.count();
  options.integer("limits.login_deadline_ms", login_deadline_ms, std::int64_t{1},
                  max_login_deadline_ms);
  limits.login_deadline = std::chrono::milliseconds(login_deadline_ms);
  options.bytes("limits.staging_per_session", limits.staging_per_session_bytes, 0, 64 * gib);
}

void read_http(OptionReader& options, HttpOptions& http) {
  options.flag("http.allow_remote", http.allow_remote);
  std::string listen = "127.0.0.1:9470";
  options.text("http.listen", listen);
  if (listen.empty() || listen == "off") {
    http.listen.reset();
    return;
  }
  http.listen = parse_http_address(listen);
  if (!http.listen)
    options.problem("http.listen", "found the text '" + listen +
                                       "', expected an address and a port, such as "
                                       "\"127.0.0.1:9470\", or \"off\"");
  else if (!http.listen->loopback && !http.allow_remote)
    options.problem("http.listen", "found '" + listen +
                                       "', which other machines may reach; expected a loopback "
                                       "address unless http.allow_remote = true");
}

void read_tcp(OptionReader& options, TcpOptions& tcp) {
  std::string listen = "off";
  options.text("tcp.listen", listen);
  options.text("tcp.certificate_file", tcp.certificate_file);
  options.text("tcp.key_file", tcp.key_file);
  options.text("tcp.client_ca_file", tcp.client_ca_file);
  options.flag("tcp.plain", tcp.plain);
  if (listen.empty() || listen == "off") return;
  tcp.listen = parse_http_address(listen);
  if (!tcp.listen)
    options.problem("tcp.listen", "found the text '" + listen +
                                      "', expected an address and a port, such as "
                                      "\"0.0.0.0:9471\", or \"off\"");
  else if (tcp.plain && !tcp.listen->loopback)
    options.problem("tcp.plain", "found true, expected false where other machines may connect");
  if (!tcp.plain && (tcp.certificate_file.empty() || tcp.key_file.empty()))
    options.problem("tcp.certificate_file",
                    "found no certificate or no key, expected both for TLS");
}

// A rule that asks for a certificate where nobody is asked to show one would never apply.
void check_certificates(OptionReader& options, const DaemonConfig& config) {
  if (config.tcp.listen && !config.tcp.plain && !config.tcp.client_ca_file.empty()) return;
  for (const AccessRule& rule : config.access.rules)
    if (!rule.certificates.empty())
      options.problem("access." + rule.name + ".certificates",
                      "found names of certificates, expected TLS (tcp.listen) with "
                      "tcp.client_ca_file beside them: else nobody is asked for one");
}

void read_models(OptionReader& options, std::vector<ModelOptions>& models) {
  for (const std::string& name : options.names_in("models")) {
    ModelOptions& model = models.emplace_back();
    model.name = model.label = name;
    options.text("models." + name + ".label", model.label);
    options.text("models." + name + ".file", model.file);
    if (model.file.empty())
      options.problem("models." + name + ".file", "found nothing, expected a GGUF file");
  }
  if (models.size() > max_models)
    options.problem("models", "found " + std::to_string(models.size()) +
                                  " models, expected at most " + std::to_string(max_models));
}

void read_log(OptionReader& options, LogOptions& log) {
  options.choice("log.level", log.level,
                 {{"trace", LogLevel::trace},
                  {"debug", LogLevel::debug},
                  {"info", LogLevel::info},
                  {"warning", LogLevel::warning},
                  {"error", LogLevel::error}});
  options.choice("log.format", log.format, {{"text", LogFormat::text}, {"json", LogFormat::json}});
  std::int64_t slow_ms = log.slow.count();
  options.integer("log.slow_ms", slow_ms, std::int64_t{0}, max_slow_ms);
  log.slow = std::chrono::milliseconds(slow_ms);
}

}  // namespace

Result<DaemonConfig> load_daemon_config(const std::optional<std::filesystem::path>& file,
                                        std::span<const Override> overrides,
                                        std::vector<Setting>* settings) {
  Result<std::vector<Entry>> entries = read_entries(file, overrides);
  if (!entries) return error(entries.error());
  OptionReader options(std::move(*entries));

  DaemonConfig config;
  config.socket_path = default_socket_path();
  config.data_dir = default_data_dir();
  read_socket_path(options, "socket", config.socket_path);
  read_access(options, config.socket_path, config.access);
  options.text("data_dir", config.data_dir);
  if (config.data_dir.empty()) options.problem("data_dir", "found no text, expected a directory");

  std::int64_t request_budget_ms = config.request_budget.count();
  std::int64_t drain_deadline_s = config.drain_deadline.count();
  options.integer("request_budget_ms", request_budget_ms, std::int64_t{1}, max_request_budget_ms);
  options.integer("drain_deadline_s", drain_deadline_s, std::int64_t{0}, max_drain_deadline_s);
  config.request_budget = std::chrono::milliseconds(request_budget_ms);
  config.drain_deadline = std::chrono::seconds(drain_deadline_s);

  read_tiers(options, config);
  if (Status status = read_redis(options, config.redis); !status.ok()) return error(status);
  check_redis(options, config.redis);
  read_tenants(options, config.tenants);
  read_spaces(options, config.spaces);
  read_limits(options, config.limits);
  read_http(options, config.http);
  read_tcp(options, config.tcp);
  check_certificates(options, config);
  read_models(options, config.models);
  read_log(options, config.log);

  if (Status status = options.finish(); !status.ok()) return error(status);
  if (settings) *settings = options.settings();
  return config;
}

}  // namespace terrace::config
