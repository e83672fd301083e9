#include "cache_daemon/device_tier.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "cache_daemon/limits.h"
#include "core/bytes.h"

namespace terrace::daemon {

DeviceTier::DeviceTier(const config::DaemonConfig& config, storage::Accelerator& accelerator,
                       storage::TieredCache& cache, std::string boot_id)
    : config_(config),
      accelerator_(accelerator),
      cache_(cache),
      boot_id_(std::move(boot_id)),
      claims_(config.socket_path) {}

Status DeviceTier::start() {
  const std::uint64_t earlier_bytes = claims_.claimed_by_others(boot_id_);
  if (!is_room(earlier_bytes)) {
    wait_for_others(earlier_bytes, "there is no room for both");
    return {};
  }
  Memory memory = accelerator_.allocate(config_.device.capacity_bytes);
  if (!memory && earlier_bytes > 0) {
    wait_for_others(earlier_bytes, memory.error().message());
    return {};
  }
  return attach(std::move(memory));
}

void DeviceTier::retry() {
  if (ready_) return;
  if (allocating_) {
    if (allocating_->wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    Memory memory = std::exchange(allocating_, std::nullopt)->get();
    if (const Status status = attach(std::move(memory));
        !status.ok() && reason_ != status.message()) {
      reason_ = status.message();
      spdlog::warn("there is still no device tier: {}", reason_);
    }
    return;
  }
  if (!is_room(claims_.claimed_by_others(boot_id_))) return;
  // The kernel zeroes memory more slowly than the deciding thread may wait.
  allocating_ = std::async(std::launch::async,
                           [this] { return accelerator_.allocate(config_.device.capacity_bytes); });
}

bool DeviceTier::is_room(std::uint64_t earlier_bytes) const {
  if (earlier_bytes == 0) return true;
  if (config_.device.overlap_bytes) return earlier_bytes <= *config_.device.overlap_bytes;
  const auto available = accelerator_.available_bytes();
  const std::uint64_t wanted = config_.device.capacity_bytes;
  return available && *available >= wanted + wanted / overlap_headroom_divisor;
}

void DeviceTier::wait_for_others(std::uint64_t earlier_bytes, const std::string& why) {
  reason_ = "processes still use " + format_bytes(earlier_bytes) +
            " of an earlier daemon's device arena: " + why;
  spdlog::warn("there is no device tier yet: {}; workers compute without the cache until then",
               reason_);
}

Status DeviceTier::attach(Memory memory) {
  if (!memory) return memory.error();
  auto claim = claims_.claim(boot_id_, (*memory)->size());
  // Only the next daemon would miss it.
  if (!claim)
    spdlog::warn("the next daemon will not see that this one's arena is in use: {}",
                 claim.error().message());
  const std::uint64_t bytes = (*memory)->size();
  if (Status status = cache_.attach_device(std::move(*memory)); !status.ok()) return status;
  if (claim) claim_ = std::move(*claim);
  ready_ = true;
  reason_.clear();
  spdlog::info("device: {} of {}", format_bytes(bytes), accelerator_.name());
  return {};
}

}  // namespace terrace::daemon
