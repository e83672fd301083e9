#include "inference/model/model_digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/unique_fd.h"

namespace terrace::inference {

namespace {

std::span<const std::uint8_t> as_octets(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

Digest stamp_digest(const FileStamp& stamp) {
  return FieldHasher("terrace.file.1")
      .text(1, stamp.canonical_path)
      .number(2, stamp.identity.bytes)
      .number(3, stamp.identity.inode)
      .number(4, stamp.identity.device)
      .number(5, static_cast<std::uint64_t>(stamp.identity.modified_ns))
      .finish();
}

// One line: what it is, which file it is of, the digest, and a digest over the three. A flipped
// digit would otherwise pass as another model.
std::string entry_text(const FileStamp& stamp, const Digest& digest) {
  const Digest key = stamp_digest(stamp);
  const Digest check =
      FieldHasher("terrace.digest_cache.1").bytes(1, key).bytes(2, digest).finish();
  return "terrace-digest-1 " + to_hex(key) + " " + to_hex(digest) + " " + to_hex(check) + "\n";
}

}  // namespace

Digest tree_digest(std::span<const std::byte> bytes, int threads) {
  const std::size_t pieces = (bytes.size() + digest_piece_bytes - 1) / digest_piece_bytes;
  std::vector<Digest> digests(pieces);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next.fetch_add(1); i < pieces; i = next.fetch_add(1)) {
      const std::size_t begin = i * digest_piece_bytes;
      const std::size_t size = std::min(digest_piece_bytes, bytes.size() - begin);
      digests[i] = sha256(as_octets(bytes.subspan(begin, size)));
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t wanted = std::min<std::size_t>(pieces, std::max(threads, 1));
    try {
      for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {
      // Fewer threads do the same work.
    }
    work();
  }
  FieldHasher root("terrace.model.1");
  root.number(1, bytes.size());
  for (const Digest& digest : digests) root.bytes(2, digest);
  return root.finish();
}

std::string DigestCache::default_directory() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache == '/')
    return std::string(cache) + "/terrace/digests";
  if (const char* home = std::getenv("HOME"); home && *home == '/')
    return std::string(home) + "/.cache/terrace/digests";
  return {};
}

std::string DigestCache::entry_path(const FileStamp& stamp) const {
  return directory_ + "/" + to_hex(stamp_digest(stamp));
}

bool DigestCache::find(const FileStamp& stamp, Digest& digest) const {
  if (directory_.empty()) return false;
  std::ifstream in(entry_path(stamp), std::ios::binary);
  std::string name, key, value;
  if (!(in >> name >> key >> value)) return false;
  Digest found;
  if (!from_hex(value, found)) return false;
  in.seekg(0);
  const std::string whole(std::istreambuf_iterator<char>(in), {});
  if (whole != entry_text(stamp, found)) return false;
  digest = found;
  return true;
}

void DigestCache::store(const FileStamp& stamp, const Digest& digest) const {
  if (directory_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(directory_, ignored);
  std::string temporary = directory_ + "/.new-XXXXXX";
  const UniqueFd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return;
  const std::string text = entry_text(stamp, digest);
  // No sync: an entry that is torn after a crash does not verify, and is made again.
  const bool written =
      ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::rename(temporary.c_str(), entry_path(stamp).c_str()) != 0)
    ::unlink(temporary.c_str());
}

namespace {

std::optional<FileStamp> current_stamp(const std::string& path) {
  std::error_code failed;
  const std::filesystem::path canonical = std::filesystem::canonical(path, failed);
  struct stat info;
  if (failed || ::stat(canonical.c_str(), &info) != 0) return std::nullopt;
  FileStamp stamp;
  stamp.canonical_path = canonical.string();
  stamp.identity.bytes = static_cast<std::uint64_t>(info.st_size);
  stamp.identity.inode = info.st_ino;
  stamp.identity.device = info.st_dev;
  stamp.identity.modified_ns =
      info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
  return stamp;
}

}  // namespace

Digest model_digest(const gguf::File& file, int threads) {
  // Clocks of file systems are coarse: a file written a moment ago may be written again without its
  // time changing, so its digest is not kept yet.
  constexpr std::int64_t settled_after_ns = 10'000'000'000;
  const auto hash = [&] { return tree_digest(file.bytes(), threads); };

  const DigestCache cache(DigestCache::default_directory());
  const auto stamp = current_stamp(file.path());
  // Another file may have taken the name since this one was opened.
  if (!stamp || stamp->identity != file.identity()) return hash();
  Digest digest;
  if (cache.find(*stamp, digest)) return digest;
  digest = hash();
  const std::int64_t now_ns = SystemClock().unix_ms() * 1'000'000;
  if (current_stamp(file.path()) == stamp &&
      now_ns - stamp->identity.modified_ns > settled_after_ns)
    cache.store(*stamp, digest);
  return digest;
}

}  // namespace terrace::inference
