#include "tests/sim/simulated_files.h"

#include <algorithm>

namespace terrace::sim {

std::uint64_t SimulatedFile::allocated_bytes() const {
  return ((bytes_.size() + unit_bytes - 1) / unit_bytes - holes_.size()) * unit_bytes;
}

std::optional<std::uint64_t> SimulatedFile::next_data(std::uint64_t offset) const {
  const auto at = written_units_.lower_bound(offset / unit_bytes);
  if (offset >= bytes_.size() || at == written_units_.end()) return std::nullopt;
  return std::max(offset, *at * unit_bytes);
}

SimulatedFile::Sector SimulatedFile::sector(std::uint64_t number) const {
  Sector sector{};
  const std::uint64_t at = number * sector_bytes;
  if (at < bytes_.size())
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(at),
                std::min<std::uint64_t>(sector_bytes, bytes_.size() - at), sector.begin());
  return sector;
}

void SimulatedFile::write(std::uint64_t offset, std::span<const std::byte> from) {
  if (from.empty()) return;
  const std::uint64_t first = offset / sector_bytes;
  const std::uint64_t end = (offset + from.size() + sector_bytes - 1) / sector_bytes;
  for (std::uint64_t at = first; at < end; ++at) {
    auto& versions = unsynced_[at];
    if (versions.empty()) versions.push_back({0, false, sector(at)});
  }
  if (bytes_.size() < offset + from.size()) bytes_.resize(offset + from.size());
  std::ranges::copy(from, bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  ++last_write_;
  for (std::uint64_t at = first; at < end; ++at) {
    unsynced_[at].push_back({last_write_, false, sector(at)});
    written_units_.insert(at * sector_bytes / unit_bytes);
    holes_.erase(at * sector_bytes / unit_bytes);
  }
}

void SimulatedFile::allocate(std::uint64_t bytes) {
  bytes_.resize(std::max(bytes, size()));
  durable_bytes_ = bytes_.size();
}

void SimulatedFile::punch_hole(std::uint64_t offset, std::uint64_t bytes) {
  const std::vector<std::byte> zeros(bytes);
  write(offset, zeros);
  for (std::uint64_t at = offset / unit_bytes; at < (offset + bytes) / unit_bytes; ++at)
    holes_.insert(at);
}

void SimulatedFile::truncate(std::uint64_t bytes) {
  bytes_.resize(bytes);
  durable_bytes_ = std::min(durable_bytes_, bytes);
}

void SimulatedFile::flip(std::uint64_t offset, unsigned bit) {
  bytes_[offset] ^= static_cast<std::byte>(1u << bit);
}

void SimulatedFile::sync(std::uint64_t up_to_write) {
  if (up_to_write == last_write_) durable_bytes_ = bytes_.size();
  for (auto at = unsynced_.begin(); at != unsynced_.end();) {
    auto& versions = at->second;
    const auto durable = std::find_if(versions.rbegin(), versions.rend(), [&](const Version& one) {
      return one.write <= up_to_write && !one.stuck;
    });
    // What comes before is gone; the base is never stuck, so that there always is one.
    versions.erase(versions.begin(), durable.base() - 1);
    at = versions.size() == 1 ? unsynced_.erase(at) : std::next(at);
  }
}

void SimulatedFile::sync_failed(std::uint64_t up_to_write) {
  for (auto& [sector, versions] : unsynced_)
    for (std::size_t i = 1; i < versions.size(); ++i)
      if (versions[i].write <= up_to_write) versions[i].stuck = true;
}

void SimulatedFile::forget_failures() {
  for (auto& [sector, versions] : unsynced_)
    for (Version& version : versions) version.stuck = false;
}

std::shared_ptr<SimulatedFile> SimulatedFile::after_crash(Random& random) const {
  auto left = std::make_shared<SimulatedFile>();
  left->bytes_ = bytes_;
  left->written_units_ = written_units_;
  left->holes_ = holes_;
  const bool by_units = random.chance(0.5);
  std::uint64_t unit = UINT64_MAX, cut = 0;
  for (const auto& [number, versions] : unsynced_) {
    // One moment for the whole unit, or one for each sector.
    if (!by_units || number * sector_bytes / unit_bytes != unit) {
      unit = number * sector_bytes / unit_bytes;
      cut = versions[random.pick(versions.size())].write;
    }
    const auto chosen = std::find_if(versions.rbegin(), versions.rend(),
                                     [&](const Version& one) { return one.write <= cut; });
    const Sector& sector = chosen == versions.rend() ? versions.front().bytes : chosen->bytes;
    const std::uint64_t at = number * sector_bytes;
    if (at < left->bytes_.size())
      std::copy_n(sector.begin(), std::min<std::uint64_t>(sector_bytes, left->bytes_.size() - at),
                  left->bytes_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  if (durable_bytes_ < left->bytes_.size())
    left->bytes_.resize(random.between(durable_bytes_, left->bytes_.size()));
  left->durable_bytes_ = left->bytes_.size();
  return left;
}

namespace {

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool lies_in(const std::string& path, const std::string& directory) {
  return path.size() > directory.size() && path.starts_with(directory) &&
         (directory.empty() || path[directory.size()] == '/');
}

}  // namespace

SimulatedFiles::File SimulatedFiles::find(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto at = names_.find(path);
  return at == names_.end() ? nullptr : at->second;
}

bool SimulatedFiles::is_directory(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  return directories_.contains(path);
}

SimulatedFiles::File SimulatedFiles::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return names_[path] = std::make_shared<SimulatedFile>();
}

void SimulatedFiles::create_directories(const std::string& path) {
  const std::lock_guard lock(mutex_);
  for (std::string at = path; !at.empty(); at = directory_of(at)) directories_.insert(at);
}

bool SimulatedFiles::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (names_.erase(path) > 0) return true;
  if (!directories_.contains(path)) return false;
  const auto inside = [&](const auto& entry) { return lies_in(entry.first, path); };
  std::erase_if(names_, inside);
  std::erase_if(durable_names_, inside);
  std::erase_if(directories_, [&](const auto& one) { return one == path || lies_in(one, path); });
  return true;
}

bool SimulatedFiles::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  auto node = names_.extract(from);
  if (node.empty()) return false;
  names_[to] = std::move(node.mapped());
  return true;
}

std::vector<std::string> SimulatedFiles::list(const std::string& directory) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> found;
  const auto add = [&](const std::string& path) {
    if (lies_in(path, directory) && path.find('/', directory.size() + 1) == std::string::npos)
      found.push_back(path.substr(directory.size() + 1));
  };
  for (const auto& [path, file] : names_) add(path);
  for (const std::string& path : directories_) add(path);
  return found;
}

void SimulatedFiles::sync_directory(const std::string& directory) {
  const std::lock_guard lock(mutex_);
  std::erase_if(durable_names_,
                [&](const auto& entry) { return directory_of(entry.first) == directory; });
  for (const auto& [path, file] : names_)
    if (directory_of(path) == directory) durable_names_[path] = file;
}

std::uint64_t SimulatedFiles::allocated_bytes(const std::string& directory) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const auto& [path, file] : names_)
    if (lies_in(path, directory)) bytes += file->allocated_bytes();
  return bytes;
}

std::unique_ptr<SimulatedFiles> SimulatedFiles::copy() const {
  const std::lock_guard lock(mutex_);
  auto same = std::make_unique<SimulatedFiles>();
  same->directories_ = directories_;
  std::map<const SimulatedFile*, File> files;
  const auto copy_names = [&files](const Names& from, Names& to) {
    for (const auto& [path, file] : from) {
      File& one = files[file.get()];
      if (!one) {
        one = std::make_shared<SimulatedFile>(*file);
        one->forget_failures();
      }
      to[path] = one;
    }
  };
  copy_names(names_, same->names_);
  copy_names(durable_names_, same->durable_names_);
  return same;
}

std::unique_ptr<SimulatedFiles> SimulatedFiles::after_crash(Random& random) const {
  const std::lock_guard lock(mutex_);
  auto left = std::make_unique<SimulatedFiles>();
  left->directories_ = directories_;
  std::set<std::string> paths;
  for (const Names* names : {&names_, &durable_names_})
    for (const auto& [path, file] : *names) paths.insert(path);
  std::map<const SimulatedFile*, File> files;
  for (const std::string& path : paths) {
    const auto now = names_.find(path), durable = durable_names_.find(path);
    const File seen = now == names_.end() ? nullptr : now->second;
    const File kept = durable == durable_names_.end() ? nullptr : durable->second;
    const File& file = seen == kept || random.chance(0.5) ? seen : kept;
    if (!file) continue;
    File& copy = files[file.get()];
    if (!copy) copy = file->after_crash(random);
    left->names_[path] = copy;
  }
  left->durable_names_ = left->names_;
  return left;
}

}  // namespace terrace::sim
