// Who takes how much of each tier, how much he may take, and who has more than his share when room
// is needed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tier.h"
#include "storage/catalog/block.h"
#include "storage/ids.h"
#include "storage/tiered_cache.h"

namespace terrace::storage {

class Tenants {
 public:
  // Of all who have no quota of their own: they are one tenant.
  static constexpr TenantId others = 0;

  // A quota named "*" is that of the others.
  explicit Tenants(const std::vector<TenantQuota>& quotas);

  std::size_t size() const { return tenants_.size(); }
  TenantId id_of(const std::string& name) const;
  const std::string& name(TenantId id) const { return tenants_[id].quota.name; }

  // The quotas of those who are known by name, from now on; who is not among `quotas` has none.
  void set_quotas(const std::vector<TenantQuota>& quotas);

  void add(TenantId id, Tier tier, std::int64_t bytes) {
    tenants_[id].used[static_cast<std::size_t>(tier)] += static_cast<std::uint64_t>(bytes);
  }
  std::uint64_t used(TenantId id, Tier tier) const {
    return tenants_[id].used[static_cast<std::size_t>(tier)];
  }
  std::uint64_t quota(TenantId id, Tier tier) const {
    return tenants_[id].quota.bytes[static_cast<std::size_t>(tier)];
  }
  // How much he may still take.
  std::uint64_t left(TenantId id, Tier tier) const {
    return quota(id, tier) > used(id, tier) ? quota(id, tier) - used(id, tier) : 0;
  }

  // What is his of a full tier: his quota, less if there is not room for all quotas; without a
  // quota what the others leave.
  std::uint64_t share(TenantId id, Tier tier, std::uint64_t capacity_bytes) const;
  // Who has more than his share, relatively most first.
  std::vector<TenantId> over_share(Tier tier, std::uint64_t capacity_bytes) const;

 private:
  struct Tenant {
    TenantQuota quota;
    std::array<std::uint64_t, local_tiers> used{};
  };
  std::vector<Tenant> tenants_;
};

}  // namespace terrace::storage
