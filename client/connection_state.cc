#include "client/connection_state.h"

#include <utility>

namespace terrace::client {

Status ConnectionState::check() const {
  if (usable_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(mutex_);
  if (phase_ == Phase::connected) return {};
  return {StatusCode::unavailable, why_};
}

Status ConnectionState::wait_connected(Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return phase_ == Phase::connected; });
  return outcome();
}

Status ConnectionState::wait_first_attempt(Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return phase_ != Phase::connecting; });
  return outcome();
}

Status ConnectionState::outcome() const {
  if (phase_ == Phase::connected) return {};
  return {phase_ == Phase::connecting ? StatusCode::deadline_exceeded : StatusCode::unavailable,
          why_};
}

std::string ConnectionState::space_tenant(const std::string& tenant) const {
  const std::lock_guard lock(mutex_);
  if (!tenant_names_.own.empty()) return tenant_names_.own;
  const auto found = tenant_names_.sharing.find(tenant);
  return found == tenant_names_.sharing.end() ? tenant : found->second;
}

void ConnectionState::set_tenant_names(TenantNames names) {
  const std::lock_guard lock(mutex_);
  if (names == tenant_names_) return;
  tenant_names_ = std::move(names);
  ++tenancy_;
}

std::shared_ptr<StagingArea> ConnectionState::staging() const {
  const std::lock_guard lock(mutex_);
  return staging_;
}

void ConnectionState::set_connected(std::chrono::milliseconds request_budget,
                                    std::shared_ptr<StagingArea> staging) {
  budget_ = request_budget;
  {
    const std::lock_guard lock(mutex_);
    staging_ = std::move(staging);
    phase_ = Phase::connected;
    why_.clear();
    usable_ = true;
  }
  changed_.notify_all();
}

void ConnectionState::set_stalled(bool stalled) {
  {
    const std::lock_guard lock(mutex_);
    phase_ = stalled ? Phase::stalled : Phase::connected;
    why_ = stalled ? "terraced does not answer" : "";
    usable_ = !stalled;
  }
  changed_.notify_all();
}

void ConnectionState::set_disconnected(std::string why) {
  std::shared_ptr<StagingArea> staging;
  {
    const std::lock_guard lock(mutex_);
    staging = std::exchange(staging_, nullptr);
    phase_ = Phase::disconnected;
    why_ = std::move(why);
    usable_ = false;
  }
  if (staging) staging->close();
  changed_.notify_all();
}

}  // namespace terrace::client
