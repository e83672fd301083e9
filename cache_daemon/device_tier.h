// Gives the cache its device tier, as soon as there is room for it beside the arenas of earlier
// daemons that workers still map.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "cache_daemon/arena_claims.h"
#include "config/daemon_config.h"
#include "storage/tiered_cache.h"

namespace terrace::daemon {

class DeviceTier {
 public:
  // `cache` was created without a device tier; it and `accelerator` must outlive this.
  DeviceTier(const config::DaemonConfig& config, storage::Accelerator& accelerator,
             storage::TieredCache& cache, std::string boot_id);

  // Takes the arena if there is room now, else leaves it to try(). An error if it cannot be had
  // although nobody is in the way.
  Status start();
  // From time to time: takes the arena if it is not there yet and there is room by now. Never
  // blocks: memory is taken on a thread of its own.
  void retry();

  bool ready() const { return ready_; }
  // Why there is none yet, for people.
  const std::string& reason() const { return reason_; }
  // What holds the claim on the arena; to be given to whoever gets the arena. -1 if not ready.
  int claim_fd() const { return claim_.fd(); }
  // Whether the arena is memory that a CPU can map.
  bool host_accessible() const { return accelerator_.host_accessible(); }
  std::string device_uuid() const { return accelerator_.device_uuid(); }

 private:
  using Memory = Result<std::unique_ptr<storage::DeviceMemory>>;

  // Whether the arena may be taken now, beside `earlier_bytes` that others still map.
  bool is_room(std::uint64_t earlier_bytes) const;
  void wait_for_others(std::uint64_t earlier_bytes, const std::string& why);
  Status attach(Memory memory);

  const config::DaemonConfig& config_;
  storage::Accelerator& accelerator_;
  storage::TieredCache& cache_;
  std::string boot_id_;
  ArenaClaims claims_;
  ArenaClaim claim_;
  bool ready_ = false;
  std::string reason_;
  std::optional<std::future<Memory>> allocating_;
};

}  // namespace terrace::daemon
