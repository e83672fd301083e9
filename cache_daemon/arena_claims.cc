#include "cache_daemon/arena_claims.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <vector>

namespace terrace::daemon {
namespace {

constexpr mode_t claim_mode = 0600;

// Whether nobody holds the claim any more; then its file is removed.
bool remove_if_nobodys(int fd, const std::string& path) {
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) return false;
  ::unlink(path.c_str());
  return true;
}

std::uint64_t read_bytes(int fd) {
  std::array<char, 32> text{};
  const ssize_t length = ::pread(fd, text.data(), text.size(), 0);
  std::uint64_t bytes = 0;
  if (length > 0) std::from_chars(text.data(), text.data() + length, bytes);
  return bytes;
}

}  // namespace

ArenaClaim::~ArenaClaim() {
  if (!fd_) return;
  fd_.reset();
  const UniqueFd again(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (again) remove_if_nobodys(again.get(), path_);
}

Result<ArenaClaim> ArenaClaims::claim(const std::string& boot_id, std::uint64_t bytes) const {
  ArenaClaim claim;
  claim.path_ = prefix() + boot_id;
  // Under another name until it is locked: what looks like nobody's is removed.
  const std::string unlocked = socket_path_ + ".claim-" + boot_id;
  claim.fd_.reset(::open(unlocked.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, claim_mode));
  if (!claim.fd_) return error(errno_status(errno, "could not create " + unlocked));
  const std::string text = std::to_string(bytes) + "\n";
  int failed = 0;
  if (::flock(claim.fd_.get(), LOCK_EX | LOCK_NB) != 0 ||
      ::write(claim.fd_.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      ::rename(unlocked.c_str(), claim.path_.c_str()) != 0)
    failed = errno != 0 ? errno : EIO;
  if (failed != 0) {
    ::unlink(unlocked.c_str());
    claim.fd_.reset();
    return error(errno_status(failed, "could not claim the device arena with " + claim.path_));
  }
  return claim;
}

std::uint64_t ArenaClaims::claimed_by_others(const std::string& own_boot_id) const {
  const std::filesystem::path pattern(prefix());
  std::filesystem::path folder = pattern.parent_path();
  if (folder.empty()) folder = ".";
  const std::string begin = pattern.filename().string();
  std::uint64_t bytes = 0;
  std::error_code failure;
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator entry(folder, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(begin) && name != begin + own_boot_id)
      found.push_back((folder / name).string());
  }
  for (const std::string& path : found) {
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (fd && !remove_if_nobodys(fd.get(), path)) bytes += read_bytes(fd.get());
  }
  return bytes;
}

}  // namespace terrace::daemon
