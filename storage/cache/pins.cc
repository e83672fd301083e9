// An operator's holds on prefixes: kept in a table beside the blocks, in notes on the disk, and as
// two bits in each block that is held.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

namespace {

PinFloor floor_of(const std::optional<Tier>& tier) {
  if (!tier) return PinFloor::anywhere;
  return *tier == Tier::device ? PinFloor::device : PinFloor::host;
}

std::string note_of(const BlockKey& key) { return pin_note_prefix + key.hex(); }

}  // namespace

Result<PinInfo> TieredCache::Impl::pin(const BlockKey& key, const PinOptions& options) {
  const std::int64_t now_ms = clock_.unix_ms();
  if (options.tier && *options.tier != Tier::device && !(*options.tier == Tier::host && host_))
    return error(StatusCode::invalid_argument,
                 std::string("cannot pin to the tier ") + to_string(*options.tier) +
                     (*options.tier == Tier::host ? ", which is off" : ""));
  if (options.expires_unix_ms != 0 && options.expires_unix_ms <= now_ms)
    return error(StatusCode::invalid_argument, "a pin that has expired already");
  expire_pins();
  const Block* const last = catalog_.find(key);
  if (!last || space_of(*last).dropping || !catalog_.reachable(*last))
    return error(StatusCode::not_found, "no prefix ends in block " + key.hex());

  Pin made;
  made.space = space_of(*last).digest;
  made.floor = floor_of(options.tier);
  made.expires_unix_ms = options.expires_unix_ms;
  made.slot_bytes = space_of(*last).slot_bytes;
  for (const Block* one = last; one; one = one->parent) made.chain.push_back(one->key);
  std::ranges::reverse(made.chain);

  std::optional<Pin> replaced;
  if (pins_.find(key)) replaced = pins_.remove(key);
  pins_.add(made);
  if (Status fits = check_pins(); !fits.ok()) {
    pins_.remove(key);
    if (replaced) pins_.add(std::move(*replaced));
    return error(std::move(fits));
  }
  apply_pins(made.chain);
  if (disk_) {
    for (const BlockKey& covered : made.chain) catalog_.find(covered)->disk_declined = false;
    queue_write(*catalog_.find(key), true);  // its ancestors first
    pump_writes();
    disk_->set_note({note_of(key), encode_pin(made)});
  }
  return describe_pin(*pins_.find(key));
}

// Whether what is pinned now is within its bounds.
Status TieredCache::Impl::check_pins() const {
  if (pins_.size() > max_pins)
    return {StatusCode::resource_exhausted,
            "there are " + std::to_string(max_pins) + " pins already"};
  const auto over = [](const char* what, std::uint64_t bytes, std::uint64_t limit) -> Status {
    if (bytes <= limit) return {};
    return {StatusCode::resource_exhausted, "pins would hold " + format_bytes(bytes) + what +
                                                ", more than the " + format_bytes(limit) +
                                                " that they may"};
  };
  const auto part = [](const ArenaTier& arena) {
    return static_cast<std::uint64_t>(max_pinned_arena_fraction *
                                      static_cast<double>(arena.arena().capacity_bytes()));
  };
  Status status = over("", pins_.bytes(PinFloor::anywhere), options_.pin_capacity_bytes);
  if (status.ok()) status = over(" of the device", pins_.bytes(PinFloor::device), part(device_));
  if (status.ok() && host_) {
    const std::uint64_t of_host = pins_.bytes(PinFloor::host) - pins_.bytes(PinFloor::device);
    status = over(" of the host", of_host, part(*host_));
  }
  return status;
}

void TieredCache::Impl::apply_pins(std::span<const BlockKey> keys) {
  for (const BlockKey& key : keys) {
    Block* block = catalog_.find(key);
    if (!block) continue;
    block->pin = pins_.floor(key);
    refresh(*block);
  }
}

Status not_pinned(const BlockKey& key) {
  return {StatusCode::not_found, "block " + key.hex() + " is not pinned"};
}

Status TieredCache::Impl::unpin(const BlockKey& key) {
  expire_pins();
  if (!pins_.find(key)) return not_pinned(key);
  remove_pin(key);
  return {};
}

void TieredCache::Impl::remove_pin(BlockKey key) {
  const Pin removed = pins_.remove(key);
  apply_pins(removed.chain);
  if (disk_) disk_->set_note({note_of(key), ""});
}

void TieredCache::Impl::expire_pins() {
  const std::int64_t now_ms = clock_.unix_ms();
  std::vector<BlockKey> expired;
  for (const auto& [key, pin] : pins_.pins())
    if (pin.expires_unix_ms != 0 && pin.expires_unix_ms <= now_ms) expired.push_back(key);
  for (const BlockKey& key : expired) remove_pin(key);
}

void TieredCache::Impl::recover_pin(const DiskNote& note) {
  if (!note.name.starts_with(pin_note_prefix)) return;
  auto pin = decode_pin(note.value);
  if (pin && note.name == note_of(pin->chain.back()) && !pins_.find(pin->chain.back()))
    pins_.add(std::move(*pin));
}

PinInfo TieredCache::Impl::describe_pin(const Pin& pin) const {
  PinInfo info;
  info.key = pin.chain.back();
  info.space = pin.space;
  if (pin.floor == PinFloor::device) info.tier = Tier::device;
  if (pin.floor == PinFloor::host) info.tier = Tier::host;
  info.expires_unix_ms = pin.expires_unix_ms;
  info.blocks = pin.chain.size();
  info.bytes = pin.chain.size() * pin.slot_bytes;
  const Block* const last = catalog_.find(pin.chain.back());
  info.whole = last && catalog_.reachable(*last);
  return info;
}

std::vector<PinInfo> TieredCache::Impl::pins() const {
  std::vector<PinInfo> infos;
  for (const auto& [key, pin] : pins_.pins())
    if (pin.expires_unix_ms == 0 || pin.expires_unix_ms > clock_.unix_ms())
      infos.push_back(describe_pin(pin));
  return infos;
}

}  // namespace terrace::storage
