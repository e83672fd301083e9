#include "cache_daemon/engines.h"

#include <spdlog/spdlog.h>

#include "core/bytes.h"
#include "storage/device/cuda/cuda_accelerator.h"
#include "storage/device/host_accelerator.h"
#include "storage/disk/disk_set.h"
#include "storage/disk/disk_store.h"
#include "storage/redis/redis_store.h"

namespace terrace::daemon {
namespace {

storage::DeviceVerify device_verify(config::DeviceVerify verify) {
  switch (verify) {
    case config::DeviceVerify::never:
      return storage::DeviceVerify::never;
    case config::DeviceVerify::first_use:
      return storage::DeviceVerify::first_use;
    case config::DeviceVerify::always:
      return storage::DeviceVerify::always;
  }
  return storage::DeviceVerify::always;
}

storage::WritePolicy write_policy(config::WritePolicy policy) {
  switch (policy) {
    case config::WritePolicy::behind:
      return storage::WritePolicy::behind;
    case config::WritePolicy::on_evict:
      return storage::WritePolicy::on_evict;
    case config::WritePolicy::on_second_use:
      return storage::WritePolicy::on_second_use;
  }
  return storage::WritePolicy::behind;
}

constexpr std::uint64_t default_host_bytes_beside_gpu = 1 * gib;

storage::CacheOptions cache_options(const config::DaemonConfig& config,
                                    const storage::Accelerator& accelerator) {
  storage::CacheOptions options;
  // The emulated device is host memory: a host tier beside it would only take twice as much.
  options.host_capacity_bytes = config.host.capacity_bytes.value_or(
      accelerator.host_accessible() ? 0 : default_host_bytes_beside_gpu);
  options.slab_bytes = config.arena.slab_bytes;
  options.clean_low_fraction = config.arena.clean_low;
  options.clean_fraction = config.arena.clean_high;
  options.host_write = write_policy(config.host.write);
  options.disk_write = write_policy(config.disk.write);
  options.redis_write = write_policy(config.redis.write);
  options.write_behind_hour_bytes = config.disk.write_behind_hour_bytes;
  options.write_behind_day_bytes = config.disk.write_behind_day_bytes;
  options.tenants = tenant_quotas(config);
  options.max_ages = space_ages(config);
  options.pin_capacity_bytes = config.pins.capacity_bytes.value_or(
      (config.disk.enabled ? config.disk.capacity_bytes : config.device.capacity_bytes) /
      config::auto_pin_divisor);
  options.device_verify = device_verify(config.device.verify);
  options.eviction = config.eviction.policy == config::EvictionPolicy::lru
                         ? storage::EvictionOrder::lru
                         : storage::EvictionOrder::reuse_index;
  return options;
}

storage::RingKind ring_kind(config::DiskRing ring) {
  switch (ring) {
    case config::DiskRing::automatic:
      return storage::RingKind::automatic;
    case config::DiskRing::io_uring:
      return storage::RingKind::io_uring;
    case config::DiskRing::threads:
      return storage::RingKind::threads;
  }
  return storage::RingKind::automatic;
}

Codec disk_codec(config::DiskCodec codec) {
  switch (codec) {
    case config::DiskCodec::raw:
      return Codec::raw;
    case config::DiskCodec::zstd:
      return Codec::zstd;
    case config::DiskCodec::planes:
      return Codec::planes;
  }
  return Codec::raw;
}

Result<std::unique_ptr<storage::DiskTier>> open_disk(const config::DaemonConfig& config) {
  if (!config.disk.enabled) return nullptr;
  storage::DiskOptions options;
  const auto& directories = config.disk.data_dirs;
  options.directory = directories.empty() ? config.data_dir : directories.front();
  options.capacity_bytes = config.disk.capacity_bytes;
  options.codec = disk_codec(config.disk.codec);
  options.zstd_level = config.disk.zstd_level;
  options.ring = ring_kind(config.disk.ring);
  const auto describe = [](const std::string& directory, const storage::DiskStore& store) {
    const storage::DiskUsage usage = store.usage();
    spdlog::info("disk: {} of {} in {}, {}, {} I/O", format_bytes(usage.used_bytes),
                 format_bytes(usage.capacity_bytes), directory, store.ring_name(),
                 store.direct() ? "direct" : "buffered");
  };
  if (directories.size() > 1) {
    auto disks = storage::DiskSet::open(options, directories);
    if (!disks) return error(disks.error());
    for (std::size_t i = 0; i < (*disks)->directories(); ++i)
      describe((*disks)->directory(i), (*disks)->store(i));
    return std::move(*disks);
  }
  auto disk = storage::DiskStore::open(options);
  if (!disk) return error(disk.error());
  describe(options.directory, **disk);
  return std::move(*disk);
}

Result<std::unique_ptr<storage::RemoteTier>> open_redis(const config::RedisOptions& config) {
  if (config.endpoints.empty()) return nullptr;
  storage::RedisOptions options;
  options.mode = config.mode == config::RedisMode::cluster ? storage::RedisMode::cluster
                                                           : storage::RedisMode::standalone;
  options.endpoints.clear();
  std::string names;
  for (const std::string& text : config.endpoints) {
    auto endpoint = storage::parse_redis_endpoint(text);
    if (!endpoint) return error(endpoint.error().with_context("redis.endpoints"));
    names += (names.empty() ? "" : ", ") + storage::to_string(*endpoint);
    options.endpoints.push_back(std::move(*endpoint));
  }
  options.user = config.user;
  options.password = config.password;
  options.tls.enabled = config.tls.enabled;
  options.tls.ca_file = config.tls.ca_file;
  options.tls.certificate_file = config.tls.certificate_file;
  options.tls.key_file = config.tls.key_file;
  options.tls.server_name = config.tls.server_name;
  options.tls.verify = config.tls.verify;
  options.database = config.database;
  options.key_prefix = config.key_prefix;
  options.connect_timeout_ms = config.connect_timeout.count();
  options.request_timeout_ms = config.request_timeout.count();
  options.ttl_ms = std::chrono::milliseconds(config.ttl).count();
  options.connections_per_server = config.connections;
  options.max_in_flight_bytes = config.max_in_flight_bytes;
  auto store = storage::RedisStore::open(options);
  if (!store) return error(store.error().with_context("redis"));
  spdlog::info("redis: {} at {}{}",
               config.mode == config::RedisMode::cluster ? "a cluster" : "one server", names,
               config.tls.enabled ? ", TLS" : "");
  return std::move(*store);
}

Status open_cuda(Engines& engines, int ordinal) {
  auto driver = cuda::load_driver();
  if (!driver) return driver.error();
  auto accelerator = storage::CudaAccelerator::open(**driver, ordinal);
  if (!accelerator) return accelerator.error();
  if (const Status& kernel = (*accelerator)->kernel_status(); !kernel.ok())
    spdlog::warn("{}: checksums are taken by the CPU: {}", (*accelerator)->name(),
                 kernel.message());
  engines.driver = std::move(*driver);
  engines.accelerator = std::move(*accelerator);
  return {};
}

Status open_accelerator(Engines& engines, const config::DeviceOptions& device) {
  if (device.kind == config::DeviceKind::cuda)
    return open_cuda(engines, device.cuda_ordinal)
        .with_context("device.accelerator = \"cuda:" + std::to_string(device.cuda_ordinal) + "\"");
  if (device.kind == config::DeviceKind::automatic) {
    const Status status = open_cuda(engines, 0);
    if (status.ok()) return {};
    spdlog::info("no GPU is used: {}", status.message());
  }
  engines.accelerator = std::make_unique<storage::HostAccelerator>();
  return {};
}

}  // namespace

std::vector<storage::TenantQuota> tenant_quotas(const config::DaemonConfig& config) {
  std::vector<storage::TenantQuota> quotas;
  for (const config::TenantOptions& tenant : config.tenants)
    quotas.push_back({tenant.name,
                      {tenant.device_bytes.value_or(storage::no_quota),
                       tenant.host_bytes.value_or(storage::no_quota),
                       tenant.disk_bytes.value_or(storage::no_quota)}});
  return quotas;
}

std::vector<storage::SpaceAge> space_ages(const config::DaemonConfig& config) {
  std::vector<storage::SpaceAge> ages;
  for (const config::SpaceOptions& space : config.spaces)
    ages.push_back({space.name, std::chrono::milliseconds(space.max_age).count()});
  return ages;
}

Result<std::unique_ptr<Engines>> open_engines(const config::DaemonConfig& config) {
  auto engines = std::make_unique<Engines>();
  if (Status status = open_accelerator(*engines, config.device); !status.ok())
    return error(std::move(status));
  auto disk = open_disk(config);
  if (!disk) return error(disk.error());
  auto redis = open_redis(config.redis);
  if (!redis) return error(redis.error());
  auto cache = storage::TieredCache::create(cache_options(config, *engines->accelerator),
                                            *engines->accelerator, std::move(*disk), engines->clock,
                                            std::move(*redis));
  if (!cache) return error(cache.error());
  engines->cache = std::move(*cache);
  if (const Status& status = engines->cache->host_registration(); !status.ok())
    spdlog::warn("copies between host and device are slower: {}", status.message());
  return engines;
}

}  // namespace terrace::daemon
