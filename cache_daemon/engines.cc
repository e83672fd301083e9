#include "cache_daemon/engines.h"

#include <spdlog/spdlog.h>

#include "core/bytes.h"
#include "storage/device/host_accelerator.h"
#include "storage/disk/disk_store.h"

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

storage::CacheOptions cache_options(const config::DaemonConfig& config) {
  storage::CacheOptions options;
  options.device_capacity_bytes = config.device.capacity_bytes;
  // The emulated device is host memory: a host tier beside it would only take twice as much.
  options.host_capacity_bytes = config.host.capacity_bytes.value_or(0);
  options.slab_bytes = config.arena.slab_bytes;
  options.clean_low_fraction = config.arena.clean_low;
  options.clean_fraction = config.arena.clean_high;
  options.host_write = write_policy(config.host.write);
  options.disk_write = write_policy(config.disk.write);
  options.write_behind_hour_bytes = config.disk.write_behind_hour_bytes;
  options.write_behind_day_bytes = config.disk.write_behind_day_bytes;
  options.device_verify = device_verify(config.device.verify);
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
  options.directory = config.data_dir;
  options.capacity_bytes = config.disk.capacity_bytes;
  options.codec = disk_codec(config.disk.codec);
  options.zstd_level = config.disk.zstd_level;
  options.ring = ring_kind(config.disk.ring);
  auto disk = storage::DiskStore::open(options);
  if (!disk) return error(disk.error());
  const storage::DiskUsage usage = (*disk)->usage();
  spdlog::info("disk: {} of {} in {}, {}, {} I/O", format_bytes(usage.used_bytes),
               format_bytes(usage.capacity_bytes), options.directory, (*disk)->ring_name(),
               (*disk)->direct() ? "direct" : "buffered");
  return std::move(*disk);
}

}  // namespace

Result<std::unique_ptr<Engines>> open_engines(const config::DaemonConfig& config) {
  auto engines = std::make_unique<Engines>();
  auto disk = open_disk(config);
  if (!disk) return error(disk.error());
  engines->accelerator = std::make_unique<storage::HostAccelerator>();
  auto cache = storage::TieredCache::create(cache_options(config), *engines->accelerator,
                                            std::move(*disk), engines->clock);
  if (!cache) return error(cache.error());
  engines->cache = std::move(*cache);
  return engines;
}

}  // namespace terrace::daemon
