#include "storage/cache/tenants.h"

#include <algorithm>

namespace terrace::storage {

Tenants::Tenants(const std::vector<TenantQuota>& quotas) : tenants_(1) {
  const std::string others_name(1, '*');
  tenants_[others].quota.name = others_name;
  for (const TenantQuota& quota : quotas) {
    if (quota.name == others_name)
      tenants_[others].quota = quota;
    else
      tenants_.push_back({quota, {}});
  }
}

void Tenants::set_quotas(const std::vector<TenantQuota>& quotas) {
  for (Tenant& tenant : tenants_) {
    const auto given = std::ranges::find(quotas, tenant.quota.name, &TenantQuota::name);
    tenant.quota.bytes = given == quotas.end() ? TenantQuota().bytes : given->bytes;
  }
}

TenantId Tenants::id_of(const std::string& name) const {
  for (std::size_t id = 1; id < tenants_.size(); ++id)
    if (tenants_[id].quota.name == name) return static_cast<TenantId>(id);
  return others;
}

std::uint64_t Tenants::share(TenantId id, Tier tier, std::uint64_t capacity_bytes) const {
  double promised = 0;
  for (std::size_t at = 0; at < tenants_.size(); ++at)
    if (const auto bytes = quota(static_cast<TenantId>(at), tier); bytes != no_quota)
      promised += static_cast<double>(bytes);
  const auto capacity = static_cast<double>(capacity_bytes);
  if (quota(id, tier) != no_quota) {
    const double part = promised > capacity ? capacity / promised : 1;
    return static_cast<std::uint64_t>(part * static_cast<double>(quota(id, tier)));
  }
  // All who have no quota in this tier have the rest, each the same of it.
  std::size_t without = 0;
  for (std::size_t at = 0; at < tenants_.size(); ++at)
    without += quota(static_cast<TenantId>(at), tier) == no_quota;
  return static_cast<std::uint64_t>(std::max(0.0, capacity - promised) /
                                    static_cast<double>(without));
}

std::vector<TenantId> Tenants::over_share(Tier tier, std::uint64_t capacity_bytes) const {
  std::vector<std::pair<double, TenantId>> over;
  for (std::size_t at = 0; at < tenants_.size(); ++at) {
    const auto id = static_cast<TenantId>(at);
    const std::uint64_t its_share = share(id, tier, capacity_bytes);
    if (used(id, tier) > its_share)
      over.emplace_back(static_cast<double>(used(id, tier)) /
                            static_cast<double>(std::max<std::uint64_t>(its_share, 1)),
                        id);
  }
  std::ranges::sort(over, std::greater());
  std::vector<TenantId> ids;
  for (const auto& [ratio, id] : over) ids.push_back(id);
  return ids;
}

}  // namespace terrace::storage
