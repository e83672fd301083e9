#include "client/cli/doctor/disk_checks.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "core/bytes.h"
#include "core/unique_fd.h"

namespace terrace::cli::doctor {
namespace {

// A block that loads slower than this hardly beats computing it anew.
constexpr double slow_read_bytes_per_s = 200e6;
constexpr std::size_t piece_bytes = 1 * mib;
constexpr std::size_t direct_alignment = 4096;
// As XFS's and ZFS's are in no header of the kernel's interface.
constexpr long xfs_magic = 0x58465342, zfs_magic = 0x2fc12fc1, cifs_magic = 0xff534d42;

struct FileSystemName {
  long magic;
  const char* name;
};
constexpr FileSystemName file_system_names[] = {
    {EXT4_SUPER_MAGIC, "ext4"}, {xfs_magic, "xfs"},        {BTRFS_SUPER_MAGIC, "btrfs"},
    {zfs_magic, "zfs"},         {TMPFS_MAGIC, "tmpfs"},    {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {NFS_SUPER_MAGIC, "nfs"},   {cifs_magic, "cifs"},      {SMB2_SUPER_MAGIC, "smb2"},
    {FUSE_SUPER_MAGIC, "fuse"}, {F2FS_SUPER_MAGIC, "f2fs"}};

std::string name_of_file_system(long magic) {
  for (const auto& [its_magic, name] : file_system_names)
    if (its_magic == magic) return name;
  char text[24];
  std::snprintf(text, sizeof text, "0x%lx", magic);
  return text;
}

std::string format_rate(double bytes_per_s) {
  return format_bytes(static_cast<std::uint64_t>(bytes_per_s)) + "/s";
}

std::uint64_t bytes_below(const std::filesystem::path& directory) {
  std::uint64_t bytes = 0;
  std::error_code failure;
  for (auto at = std::filesystem::recursive_directory_iterator(
           directory, std::filesystem::directory_options::skip_permission_denied, failure);
       !failure && at != std::filesystem::recursive_directory_iterator(); at.increment(failure)) {
    std::error_code unreadable;
    if (at->is_regular_file(unreadable))
      if (const auto size = at->file_size(unreadable); !unreadable) bytes += size;
  }
  return bytes;
}

class TemporaryFile {
 public:
  static Result<TemporaryFile> create(const std::string& directory) {
    TemporaryFile file;
    file.path_ = directory + "/.terrace-doctor-XXXXXX";
    file.fd_.reset(::mkstemp(file.path_.data()));
    if (!file.fd_) return error(errno_status(errno, "could not create a file in " + directory));
    // Gone with its last descriptor, whatever ends the program.
    ::unlink(file.path_.c_str());
    return file;
  }
  int fd() const { return fd_.get(); }

 private:
  std::string path_;
  UniqueFd fd_;
};

struct FreeBuffer {
  void operator()(void* buffer) const { std::free(buffer); }
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Result<DiskSpeed> measure_disk_speed(const std::string& directory, std::uint64_t bytes) {
  auto file = TemporaryFile::create(directory);
  if (!file) return error(file.error());
  const std::unique_ptr<std::byte, FreeBuffer> buffer(
      static_cast<std::byte*>(std::aligned_alloc(direct_alignment, piece_bytes)));
  // Nothing that a file system could compress away.
  std::uint64_t state = 0x9e3779b97f4a7c15;
  for (std::size_t i = 0; i + sizeof state <= piece_bytes; i += sizeof state) {
    state = state * 6364136223846793005 + 1442695040888963407;
    store_le(buffer.get() + i, state);
  }
  DiskSpeed speed;
  const int flags = ::fcntl(file->fd(), F_GETFL);
  speed.direct = ::fcntl(file->fd(), F_SETFL, flags | O_DIRECT) == 0;
  auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t at = 0; at < bytes; at += piece_bytes)
    if (::pwrite(file->fd(), buffer.get(), piece_bytes, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(piece_bytes))
      return error(errno_status(errno, "could not write in " + directory));
  if (::fdatasync(file->fd()) != 0)
    return error(errno_status(errno, "could not make durable what was written in " + directory));
  speed.write_bytes_per_s = static_cast<double>(bytes) / seconds_since(begin);
  ::posix_fadvise(file->fd(), 0, 0, POSIX_FADV_DONTNEED);
  begin = std::chrono::steady_clock::now();
  for (std::uint64_t at = 0; at < bytes; at += piece_bytes)
    if (::pread(file->fd(), buffer.get(), piece_bytes, static_cast<off_t>(at)) !=
        static_cast<ssize_t>(piece_bytes))
      return error(errno_status(errno, "could not read in " + directory));
  speed.read_bytes_per_s = static_cast<double>(bytes) / seconds_since(begin);
  return speed;
}

DirectoryFacts gather_directory(const std::string& path, std::uint64_t capacity_bytes,
                                bool measure_speed) {
  DirectoryFacts facts;
  facts.path = path;
  facts.capacity_bytes = capacity_bytes;
  std::error_code failure;
  std::filesystem::path at = std::filesystem::absolute(path, failure);
  while (!std::filesystem::exists(at, failure) && at.has_relative_path()) at = at.parent_path();
  facts.exists_as = at.string();
  facts.is_directory = std::filesystem::is_directory(at, failure);
  facts.writable = ::access(at.c_str(), W_OK | X_OK) == 0;
  struct statfs of_file_system {};
  if (::statfs(at.c_str(), &of_file_system) == 0) {
    facts.file_system = name_of_file_system(of_file_system.f_type);
    facts.free_bytes = of_file_system.f_bavail * static_cast<std::uint64_t>(of_file_system.f_bsize);
  }
  if (std::filesystem::path(path) == at || std::filesystem::equivalent(path, at, failure))
    facts.used_by_terrace_bytes = bytes_below(at);
  if (!measure_speed || !facts.is_directory || !facts.writable ||
      facts.free_bytes < 2 * speed_test_bytes)
    return facts;
  auto speed = measure_disk_speed(facts.exists_as, speed_test_bytes);
  if (speed)
    facts.speed = *speed;
  else
    facts.speed_failure = speed.error();
  return facts;
}

Findings check_directory(const DirectoryFacts& facts) {
  Findings findings;
  if (!facts.is_directory || !facts.writable) {
    findings.push_back({"data", Severity::problem,
                        facts.exists_as + (facts.is_directory ? " cannot be written to by this user"
                                                              : " is no directory"),
                        "mkdir -p " + facts.path +
                            " and give it to the daemon's user, or set data_dir or "
                            "disk.data_dirs"});
    return findings;
  }
  const std::string& type = facts.file_system;
  if (type == "tmpfs")
    findings.push_back({"data", Severity::warning,
                        facts.path + " is memory (tmpfs): it takes from what the tiers above have, "
                                     "and is gone after a restart of the machine",
                        "name a directory on a disk: data_dir or disk.data_dirs"});
  else if (type == "overlay")
    findings.push_back({"data", Severity::warning,
                        facts.path + " lies in the layer of a container: it is gone with it",
                        "mount a volume there"});
  else if (type == "nfs" || type == "cifs" || type == "smb2" || type == "fuse")
    findings.push_back({"data", Severity::warning,
                        facts.path + " is on " + type +
                            ", which may be slow and may lie about "
                            "what is durable",
                        "name a directory on a local disk: data_dir or disk.data_dirs"});
  else
    findings.push_back({"data", Severity::ok, facts.path + " can be written to, on " + type, ""});

  const std::uint64_t room = facts.free_bytes + facts.used_by_terrace_bytes;
  if (room < facts.capacity_bytes)
    findings.push_back({"space", Severity::problem,
                        facts.path + " is to hold " + format_bytes(facts.capacity_bytes) +
                            ", and has room for " + format_bytes(room),
                        "lower disk.capacity, or free space: what does not fit is not kept"});
  else
    findings.push_back(
        {"space", Severity::ok,
         format_bytes(facts.capacity_bytes) + " of " + format_bytes(room) + " in " + facts.path,
         ""});

  if (!facts.speed_failure.ok()) {
    findings.push_back({"speed", Severity::problem, facts.speed_failure.message(),
                        "see the kernel's log: a disk that fails may be behind this"});
  } else if (facts.speed) {
    const std::string figures = "writes " + format_rate(facts.speed->write_bytes_per_s) +
                                ", reads " + format_rate(facts.speed->read_bytes_per_s) +
                                (facts.speed->direct ? "" : " (buffered)") + " in " +
                                facts.exists_as;
    const bool slow = facts.speed->read_bytes_per_s < slow_read_bytes_per_s;
    findings.push_back({"speed", slow ? Severity::warning : Severity::ok, figures,
                        slow ? "a faster disk: below " + format_rate(slow_read_bytes_per_s) +
                                   " computing is often as fast as loading"
                             : ""});
  }
  return findings;
}

}  // namespace terrace::cli::doctor
