// The model's part of a space: which weights and hyper-parameters made the KV.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/sha256.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::inference {

// Pieces of a file that are hashed on their own, so that threads can share the work.
constexpr std::size_t digest_piece_bytes = std::size_t{4} << 20;

// SHA-256 over the file's size and the SHA-256 of each piece: every byte counts, so that nothing
// that could change the KV is ever left out. Uses `threads` threads (at least one).
Digest tree_digest(std::span<const std::byte> bytes, int threads);

// The tree digest of a model file. It is kept in ${XDG_CACHE_HOME:-~/.cache}/terrace/digests under
// the file's path, size, modification time, inode and device as they were when it was opened; a
// file that changed since, or that changed within the last seconds, is hashed afresh. A cache that
// is corrupt or cannot be written is no error. Any thread; needs 2 GB/s a thread when hashing.
Digest model_digest(const gguf::File& file, int threads);

// What is asked for: the file of this name, as it was when it was opened. Equal stamps mean equal
// bytes, unless the file changed within the resolution of its clock.
struct FileStamp {
  std::string canonical_path;
  gguf::FileIdentity identity;

  bool operator==(const FileStamp&) const = default;
};

// Digests on disk, one small file each. Stateless between calls; several processes may share the
// directory: entries are put in place whole, by renaming.
class DigestCache {
 public:
  // An empty directory name: nothing is kept.
  explicit DigestCache(std::string directory) : directory_(std::move(directory)) {}
  // ${XDG_CACHE_HOME:-~/.cache}/terrace/digests; empty without a home.
  static std::string default_directory();

  // False if there is none, or one that does not verify.
  bool find(const FileStamp& stamp, Digest& digest) const;
  // Best effort.
  void store(const FileStamp& stamp, const Digest& digest) const;

 private:
  std::string entry_path(const FileStamp& stamp) const;

  std::string directory_;
};

}  // namespace terrace::inference
