#include "storage/disk/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#ifdef __linux__
#include <linux/falloc.h>
#endif

namespace terrace::storage {

namespace {

constexpr std::uint64_t stat_block_bytes = 512;  // what st_blocks counts

Status last_error(const std::string& what) { return errno_status(errno, what); }

// Writes all of `contents` at the descriptor's position.
Status write_all(int fd, std::span<const std::byte> contents, const std::string& path) {
  while (!contents.empty()) {
    const ssize_t written = ::write(fd, contents.data(), contents.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return last_error("could not write " + path);
    }
    contents = contents.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

std::string parent_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

class SystemFiles final : public Files {
 public:
  Status create_directories(const std::string& path) override {
    struct stat status;
    if (::stat(path.c_str(), &status) == 0) {
      if (S_ISDIR(status.st_mode)) return {};
      return errno_status(ENOTDIR, "could not use " + path);
    }
    const std::string parent = parent_of(path);
    if (parent != path && parent != ".") {
      if (Status created = create_directories(parent); !created.ok()) return created;
    }
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
      return last_error("could not create " + path);
    return {};
  }

  Status sync_directory(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return last_error("could not open " + path);
    if (::fsync(fd.get()) != 0) return last_error("could not sync " + path);
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    std::error_code code;
    std::vector<std::string> names;
    for (std::filesystem::directory_iterator at(path, code), end; !code && at != end;
         at.increment(code))
      names.push_back(at->path().filename().string());
    if (code) return error(errno_status(code.value(), "could not list " + path));
    return names;
  }

  Status remove(const std::string& path) override {
    std::error_code code;
    std::filesystem::remove_all(path, code);
    if (code) return errno_status(code.value(), "could not remove " + path);
    return {};
  }

  std::uint64_t allocated_bytes(const std::string& path) override {
    std::uint64_t bytes = 0;
    std::error_code code;
    for (std::filesystem::directory_iterator at(path, code), end; !code && at != end;
         at.increment(code)) {
      struct stat status;
      if (::stat(at->path().c_str(), &status) == 0)
        bytes += static_cast<std::uint64_t>(status.st_blocks) * stat_block_bytes;
    }
    return bytes;
  }

  Result<std::string> read_file(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) {
      if (errno == ENOENT || errno == ENOTDIR)
        return error(StatusCode::not_found, path + " does not exist");
      return error(last_error("could not open " + path));
    }
    std::string contents;
    char buffer[4096];
    for (;;) {
      const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
      if (got < 0) {
        if (errno == EINTR) continue;
        return error(last_error("could not read " + path));
      }
      if (got == 0) return contents;
      contents.append(buffer, static_cast<std::size_t>(got));
    }
  }

  Status write_file(const std::string& path, std::span<const std::byte> contents) override {
    const std::string next = path + ".new";
    {
      const UniqueFd fd(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      if (!fd) return last_error("could not create " + next);
      if (Status written = write_all(fd.get(), contents, next); !written.ok()) return written;
      if (::fsync(fd.get()) != 0) return last_error("could not sync " + next);
    }
    if (::rename(next.c_str(), path.c_str()) != 0) return last_error("could not rename " + next);
    return sync_directory(parent_of(path));
  }

  Result<UniqueFd> lock_file(const std::string& path, const std::string& owner) override {
    UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd) return error(last_error("could not open " + path));
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return error(last_error("could not lock " + path));
      return error(StatusCode::already_exists, read_file(path).value_or(""));
    }
    if (::ftruncate(fd.get(), 0) != 0) return error(last_error("could not write " + path));
    const auto text = std::as_bytes(std::span(owner));
    if (Status written = write_all(fd.get(), text, path); !written.ok()) return error(written);
    return fd;
  }

  Result<DataFile> open_data_file(const std::string& path, bool create) override {
    const int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0);
    DataFile file{UniqueFd(::open(path.c_str(), flags, 0600)), false};
    if (!file.fd) return error(last_error("could not open " + path));
    // A second open, so that a file system that refuses O_DIRECT has not created the file already.
    if (UniqueFd direct{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_DIRECT)})
      file = {std::move(direct), true};
    else if (errno != EINVAL)
      return error(last_error("could not open " + path));
    return file;
  }

  Status preallocate(int fd, std::uint64_t bytes) override {
    // An allocation that fails may have taken all that was left, if only for a moment.
    struct statvfs room;
    if (::fstatvfs(fd, &room) == 0 && room.f_blocks > 0 && room.f_bavail * room.f_frsize < bytes)
      return errno_status(ENOSPC, "could not allocate a data file");
    while (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
      if (errno == EINTR) continue;
      // A file system that cannot: the length at least is what it will grow to.
      if (errno == EOPNOTSUPP && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0) break;
      return last_error("could not allocate a data file");
    }
    if (::fsync(fd) != 0) return last_error("could not sync a data file");
    return {};
  }

  Status sync(int fd) override {
    if (::fdatasync(fd) != 0) return last_error("could not sync a data file");
    return {};
  }

  Result<std::uint64_t> size(int fd) override {
    struct stat status;
    if (::fstat(fd, &status) != 0) return error(last_error("could not stat a data file"));
    return static_cast<std::uint64_t>(status.st_size);
  }

  Status punch_hole(int fd, std::uint64_t offset, std::uint64_t bytes) override {
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(bytes)) != 0)
      return last_error("could not free room of a data file");
    return {};
  }

  Result<std::optional<std::uint64_t>> next_data(int fd, std::uint64_t offset) override {
    const off_t at = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
    if (at >= 0) return static_cast<std::uint64_t>(at);
    if (errno == ENXIO) return std::nullopt;
    if (errno == EINVAL) return offset;  // a file system that does not know
    return error(last_error("could not seek in a data file"));
  }

  Result<std::size_t> read(int fd, std::uint64_t offset, std::span<std::byte> into) override {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t got =
          ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (got < 0) {
        if (errno == EINTR) continue;
        return error(last_error("could not read a data file"));
      }
      done += static_cast<std::size_t>(got);
      if (got == 0 || static_cast<std::uint64_t>(got) % 512 != 0) break;  // the end of the file
    }
    return done;
  }
};

}  // namespace

std::unique_ptr<Files> make_system_files() { return std::make_unique<SystemFiles>(); }

}  // namespace terrace::storage
