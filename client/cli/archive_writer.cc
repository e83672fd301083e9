#include "client/cli/archive_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

namespace terrace::cli {
namespace {

Status archive_failure(const std::string& path, const char* what) {
  return errno_status(errno, path + ": could not " + what);
}

// The file that an export writes, which is this one's alone: of two that write one file, the second
// would spoil what the first has finished.
Result<UniqueFd> open_to_write(const std::string& path, int flags) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0600));
  if (!fd && errno == ENOENT && (flags & O_CREAT) == 0)
    return error(StatusCode::not_found,
                 path + " is not there: leave out --resume, there is nothing to go on with");
  if (!fd) return error(archive_failure(path, "open it"));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0)
    return error(StatusCode::failed_precondition, path + " is being written by another export");
  return fd;
}

Result<std::size_t> read_all(int fd, std::uint64_t offset, std::span<std::byte> into,
                             const std::string& path) {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got =
        ::pread(fd, into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return error(archive_failure(path, "read it"));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace

std::string unfinished_archive_path(const std::string& path) { return path + ".part"; }

Result<ArchiveReader> open_archive_file(const std::string& path) {
  auto fd = std::make_shared<UniqueFd>(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd->get() < 0) return error(archive_failure(path, "open it"));
  auto reader = ArchiveReader::open([fd, path](std::uint64_t offset, std::span<std::byte> into) {
    return read_all(fd->get(), offset, into, path);
  });
  if (!reader) return error(reader.error().with_context(path));
  return reader;
}

Result<ArchiveWriter> ArchiveWriter::create(const std::string& path, std::int64_t made_unix_ms) {
  const std::string unfinished = unfinished_archive_path(path);
  auto fd = open_to_write(unfinished, O_CREAT);
  if (!fd) return error(fd.error());
  if (::ftruncate(fd->get(), 0) != 0) return error(archive_failure(unfinished, "make it"));
  ArchiveWriter writer(path, std::move(*fd));
  ArchiveUnit unit;
  encode_archive_header(made_unix_ms, unit);
  if (Status status = writer.write(unit, {}); !status.ok()) return error(status);
  return writer;
}

Result<ArchiveWriter> ArchiveWriter::resume(const std::string& path,
                                            const std::function<void(const ArchivePart&)>& seen) {
  const std::string unfinished = unfinished_archive_path(path);
  auto fd = open_to_write(unfinished, 0);
  if (!fd) return error(fd.error());
  auto reader = open_archive_file(unfinished);
  if (!reader) return error(reader.error());
  for (;;) {
    const auto part = reader->next();
    if (!part) return error(part.error());
    if (!*part || reader->damages() > 0 || reader->trailer_found()) break;
    seen(**part);
  }
  ArchiveWriter writer(path, std::move(*fd));
  writer.sum_ = reader->sound();
  const auto end = static_cast<off_t>(writer.sum_.bytes);
  if (::ftruncate(writer.fd_.get(), end) != 0 || ::lseek(writer.fd_.get(), end, SEEK_SET) != end)
    return error(archive_failure(unfinished, "go on with it"));
  return writer;
}

Status ArchiveWriter::add(const SpaceDescriptor& space) {
  ArchiveUnit unit;
  if (Status status = encode_archive_space(space, unit); !status.ok()) return status;
  return write(unit, {});
}

Status ArchiveWriter::add(RecordHeader header, std::span<const std::byte> payload,
                          std::uint64_t payload_checksum) {
  header.codec = Codec::raw;
  header.payload_bytes = header.stored_bytes = payload.size();
  header.payload_checksum = header.stored_checksum = payload_checksum;
  ArchiveUnit unit;
  if (Status status = encode_record_header(header, unit); !status.ok()) return status;
  return write(unit, payload);
}

Status ArchiveWriter::write(std::span<const std::byte> first_unit,
                            std::span<const std::byte> payload) {
  static constexpr std::array<std::byte, archive_unit_bytes> zeros{};
  const std::uint64_t bytes =
      payload.empty() ? archive_unit_bytes : archive_record_bytes(payload.size());
  const std::size_t padding = bytes - first_unit.size() - payload.size();
  iovec parts[] = {{const_cast<std::byte*>(first_unit.data()), first_unit.size()},
                   {const_cast<std::byte*>(payload.data()), payload.size()},
                   {const_cast<std::byte*>(zeros.data()), padding}};
  for (iovec& part : parts) {
    while (part.iov_len > 0) {
      const ssize_t written = ::write(fd_.get(), part.iov_base, part.iov_len);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return archive_failure(unfinished_archive_path(path_), "write to it");
      part.iov_base = static_cast<std::byte*>(part.iov_base) + written;
      part.iov_len -= static_cast<std::size_t>(written);
    }
  }
  sum_.add(first_unit, bytes);
  return {};
}

Status ArchiveWriter::finish() {
  ArchiveUnit unit;
  encode_archive_trailer(sum_, unit);
  if (Status status = write(unit, {}); !status.ok()) return status;
  const std::string unfinished = unfinished_archive_path(path_);
  if (::fsync(fd_.get()) != 0) return archive_failure(unfinished, "make it durable");
  if (::rename(unfinished.c_str(), path_.c_str()) != 0)
    return archive_failure(path_, "move the archive to its place");
  const auto directory = std::filesystem::absolute(path_).parent_path();
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0 || ::fsync(fd.get()) != 0)
    return archive_failure(directory.string(), "make the archive's name durable");
  return {};
}

}  // namespace terrace::cli
