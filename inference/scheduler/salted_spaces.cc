#include "inference/scheduler/salted_spaces.h"

#include <span>

#include "core/bytes.h"
#include "core/sha256.h"

namespace terrace::inference {

namespace {

// In a field of its own: no adapter has a revision without having a name.
std::string revision_of(const std::string& salt) {
  if (salt.empty()) return {};
  const auto digest = sha256({reinterpret_cast<const std::uint8_t*>(salt.data()), salt.size()});
  return "salt:" + to_hex(digest);
}

}  // namespace

PrefixRoot SaltedSpaces::root_of(const std::string& salt) {
  client::Space* const plain = engine_.space();
  if (salt.empty() && plain) return {plain, plain->digest()};
  SpaceDescriptor descriptor = plain ? plain->descriptor() : SpaceDescriptor{};
  descriptor.adapter_revision = revision_of(salt);
  if (plain) {
    const std::lock_guard lock(mutex_);
    const auto found = spaces_.find(salt);
    if (found != spaces_.end()) return {found->second.get(), found->second->digest()};
    if (spaces_.size() < max_salted_spaces) {
      const auto space = engine_.client()->open_space(descriptor);
      spaces_.emplace(salt, space);
      return {space.get(), space->digest()};
    }
  }
  return {nullptr, descriptor.digest()};
}

}  // namespace terrace::inference
