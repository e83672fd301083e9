// What the daemon's options mean for the cache and its engines.
#pragma once

#include <memory>
#include <vector>

#include "config/daemon_config.h"
#include "core/clock.h"
#include "core/cuda/driver_api.h"
#include "core/status.h"
#include "storage/tiered_cache.h"

namespace terrace::daemon {

// The cache and what must outlive it.
struct Engines {
  SystemClock clock;
  std::unique_ptr<const cuda::DriverApi> driver;  // with a CUDA device only
  std::unique_ptr<storage::Accelerator> accelerator;
  std::unique_ptr<storage::TieredCache> cache;
};

// The tenants of the configuration, as the cache knows them.
std::vector<storage::TenantQuota> tenant_quotas(const config::DaemonConfig& config);
std::vector<storage::SpaceAge> space_ages(const config::DaemonConfig& config);

// Opens the data directory, recovers what it holds and makes the host arena; the device arena is
// the business of DeviceTier. Redis, if one is configured, need not be there. already_exists if
// another daemon has the directory; unavailable if the GPU that was asked for cannot be used.
Result<std::unique_ptr<Engines>> open_engines(const config::DaemonConfig& config);

}  // namespace terrace::daemon
