// What any thread may know of the connection.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "client/client.h"
#include "client/staging_area.h"
#include "core/status.h"

namespace terrace::client {

// How a login has the daemon name the tenants of spaces.
struct TenantNames {
  std::string own;                             // of all spaces; "": as they ask
  std::map<std::string, std::string> sharing;  // of tenants that share with others

  bool operator==(const TenantNames&) const = default;
};

class ConnectionState {
 public:
  // A call that starts now: ok, or unavailable with the reason. Any thread.
  Status check() const;
  // As Client::wait_connected. Any thread.
  Status wait_connected(Deadline deadline);
  // As Client::wait_first_attempt. Any thread.
  Status wait_first_attempt(Deadline deadline);
  std::chrono::milliseconds request_budget() const { return budget_.load(); }
  // The tenant of a space that asks for `tenant`, and a number that changes with the answers to
  // this.
  std::string space_tenant(const std::string& tenant) const;
  std::uint64_t tenancy() const { return tenancy_.load(std::memory_order_acquire); }

  // Of the connection that stands; null without one, and where it has none.
  std::shared_ptr<StagingArea> staging() const;

  // The connection's thread:
  void set_tenant_names(TenantNames names);
  void set_connected(std::chrono::milliseconds request_budget,
                     std::shared_ptr<StagingArea> staging);
  // The connection stands, but nobody answers; or somebody does again.
  void set_stalled(bool stalled);
  void set_disconnected(std::string why);

 private:
  enum class Phase { connecting, connected, stalled, disconnected };

  // What a wait that ends now returns. With mutex_ held.
  Status outcome() const;

  std::atomic<std::chrono::milliseconds> budget_{std::chrono::milliseconds(200)};
  std::atomic<bool> usable_{false};
  std::atomic<std::uint64_t> tenancy_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::connecting;
  TenantNames tenant_names_;
  std::shared_ptr<StagingArea> staging_;
  std::string why_ = "not connected to terraced yet";
};

}  // namespace terrace::client
