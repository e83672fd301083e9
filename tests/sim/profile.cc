#include <sstream>

#include "tests/sim/simulation.h"

namespace terrace::sim {

namespace {

const char* name(storage::WritePolicy policy) {
  switch (policy) {
    case storage::WritePolicy::behind:
      return "behind";
    case storage::WritePolicy::on_evict:
      return "on_evict";
    case storage::WritePolicy::on_second_use:
      return "on_second_use";
  }
  return "";
}

// Of a store: the least that it is given for blocks, and what for its index: little, so that it
// grows into the room of blocks, or enough.
constexpr std::uint64_t least_store_pages = 40;
constexpr std::uint64_t index_bytes[] = {900 << 10, 1500 << 10, 3000 << 10};

// Quotas of some tenants in some tiers.
std::vector<storage::TenantQuota> draw_tenants(Random& random, const Profile& profile) {
  std::vector<storage::TenantQuota> tenants;
  const std::uint64_t capacities[] = {profile.device_pages * page_bytes,
                                      profile.host_pages * page_bytes, profile.disk_bytes};
  for (const char* name : {"*", "a", "b"}) {
    if (random.chance(0.4)) continue;
    storage::TenantQuota& quota = tenants.emplace_back();
    quota.name = name;
    for (std::size_t tier = 0; tier < quota.bytes.size(); ++tier)
      if (random.chance(0.5))
        quota.bytes[tier] = random.between(4 * page_bytes, 4 * page_bytes + capacities[tier] / 2);
  }
  return tenants;
}

// Long lives in large memory over a large disk, so that a drain has more to write than the queue of
// a disk takes at once.
void enlarge(Profile& profile, Random& random) {
  profile.large = true;
  profile.blocks = random.between(250, 400);
  profile.device_pages = random.between(300, 600);
  profile.disk_bytes = random.between(2000, 3000) * page_bytes;
  if (random.chance(0.5)) profile.host_pages = random.between(8, 200);
  if (random.chance(0.7)) profile.disk_write = storage::WritePolicy::on_evict;
  if (random.chance(0.7)) profile.tenants.clear();
  if (random.chance(0.5))
    for (bool* fault : profile.faults.all()) *fault = false;
}

}  // namespace

Profile Profile::draw(Random& random, const RunOptions& options) {
  Profile profile;
  profile.spaces = random.between(1, 4);
  profile.blocks = random.between(20, random.chance(0.5) ? 70 : 200);
  constexpr std::uint64_t slabs[] = {3, 4, 6, 8, 13};
  profile.slab_pages = random.one_of(slabs);
  profile.device_pages = random.between(8, 48);
  if (random.chance(0.55)) profile.host_pages = random.between(6, 40);
  if (options.disk != DiskKind::none && !(options.disk == DiskKind::by_seed && random.chance(0.1)))
    profile.disk_bytes = random.between(8, random.chance(0.3) ? 800 : 160) * page_bytes;
  constexpr double fractions[] = {0, 0.1, 0.25, 0.5};
  profile.clean_fraction = random.one_of(fractions);
  profile.clean_low_fraction = random.chance(0.5) ? profile.clean_fraction : 0;
  constexpr storage::WritePolicy policies[] = {storage::WritePolicy::behind,
                                               storage::WritePolicy::on_evict,
                                               storage::WritePolicy::on_second_use};
  if (random.chance(0.5)) profile.host_write = random.one_of(policies);
  if (random.chance(0.5)) profile.disk_write = random.one_of(policies);
  if (random.chance(0.3)) profile.hour_bytes = random.between(1, 40) * page_bytes;
  if (random.chance(0.3)) profile.day_bytes = random.between(1, 400) * page_bytes;
  constexpr storage::DeviceVerify verify[] = {storage::DeviceVerify::never,
                                              storage::DeviceVerify::first_use,
                                              storage::DeviceVerify::always};
  profile.verify = random.one_of(verify);
  profile.out_of_reach = random.chance(0.25);
  profile.clients = random.between(1, 8);
  if (random.chance(0.7)) profile.pinned_bytes = random.between(2, 50) * page_bytes;
  if (random.chance(0.5)) profile.tenants = draw_tenants(random, profile);
  constexpr double rates[] = {0.01, 0.05, 0.2};
  profile.fault_rate = random.one_of(rates);
  // A third of the runs has a world without faults: there, much more must hold.
  profile.faults = options.faults;
  const bool quiet = random.chance(0.33);
  // What there is of the tier that others share does not change the rest of what a seed gives.
  Random remote(options.seed * 0xd1342543de82ef95 + 3);
  for (bool* fault : profile.faults.all()) {
    Random& from = profile.faults.is_remote(fault) ? remote : random;
    *fault = *fault && !quiet && from.chance(0.45);
  }
  profile.remote = remote.chance(0.5);
  profile.redis_write = remote.one_of(policies);
  // Together with quotas there are holes that are not explained yet.
  if (profile.remote) profile.tenants.clear();
  if (!profile.remote)
    profile.faults.remote_fails = profile.faults.remote_forgets = profile.faults.remote_rots =
        false;
  if (options.faults.crashes) profile.faults.crashes = random.chance(0.7);
  if (profile.disk_bytes > 0 && random.chance(0.1)) enlarge(profile, random);
  if (options.disk == DiskKind::store) {
    profile.store = true;
    profile.directories = random.chance(0.3) ? random.between(2, 3) : 1;
    // Beside what blocks take there is an index in each.
    profile.disk_bytes =
        std::max(profile.disk_bytes, profile.directories * least_store_pages * page_bytes);
    profile.disk_bytes += profile.directories * random.one_of(index_bytes);
    constexpr Codec codecs[] = {Codec::raw, Codec::raw, Codec::zstd, Codec::planes};
    profile.codec = random.one_of(codecs);
    profile.file_pages = random.between(12, 120);
  } else {
    profile.faults.index_fails = profile.faults.index_lost = false;
  }
  return profile;
}

std::string Profile::text() const {
  std::ostringstream out;
  if (large) out << "large: ";
  out << spaces << " spaces, " << blocks << " blocks, " << clients << " clients, pages: device "
      << device_pages << ", host " << host_pages << ", slab " << slab_pages << "; disk "
      << disk_bytes << " bytes; written " << name(host_write) << ", " << name(disk_write)
      << ", budget " << hour_bytes << ", " << day_bytes << "; clean " << clean_low_fraction
      << " to " << clean_fraction << ", verify "
      << (verify == storage::DeviceVerify::never       ? "never"
          : verify == storage::DeviceVerify::first_use ? "first_use"
                                                       : "always")
      << (out_of_reach ? ", device out of reach" : "");
  if (remote) out << ", shared " << name(redis_write);
  out << "; faults at " << fault_rate << ":";
  if (store)
    out << " (a store in " << directories << " directories, codec " << static_cast<unsigned>(codec)
        << ", files of " << file_pages << " pages)";
  if (pinned_bytes > 0) out << "; pins of " << pinned_bytes;
  for (const storage::TenantQuota& tenant : tenants) {
    out << "; tenant " << tenant.name;
    for (const std::uint64_t bytes : tenant.bytes)
      out << " " << (bytes == storage::no_quota ? "-" : std::to_string(bytes));
  }
  Faults copy = faults;
  for (std::size_t i = 0; i < Faults::names.size(); ++i)
    if (*copy.all()[i]) out << " " << Faults::names[i];
  return out.str();
}

}  // namespace terrace::sim
