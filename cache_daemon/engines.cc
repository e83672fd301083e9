#include "cache_daemon/engines.h"

#include "storage/device/host_accelerator.h"

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

storage::CacheOptions cache_options(const config::DaemonConfig& config) {
  storage::CacheOptions options;
  options.device_capacity_bytes = config.device.capacity_bytes;
  // The emulated device is host memory: a host tier beside it would only take twice as much.
  options.host_capacity_bytes = config.host.capacity_bytes.value_or(0);
  options.slab_bytes = config.arena.slab_bytes;
  options.device_verify = device_verify(config.device.verify);
  return options;
}

}  // namespace

Result<std::unique_ptr<Engines>> open_engines(const config::DaemonConfig& config) {
  auto engines = std::make_unique<Engines>();
  std::unique_ptr<storage::DiskTier> disk;
  engines->accelerator = std::make_unique<storage::HostAccelerator>();
  auto cache = storage::TieredCache::create(cache_options(config), *engines->accelerator,
                                            std::move(disk), engines->clock);
  if (!cache) return error(cache.error());
  engines->cache = std::move(*cache);
  return engines;
}

}  // namespace terrace::daemon
