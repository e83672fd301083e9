#include "storage/disk/index.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "core/bytes.h"
#include "core/space.h"

namespace terrace::storage {

namespace {

constexpr char block_prefix = 'b', recency_prefix = 'r', note_prefix = 'n';
constexpr const char* version_key = "mversion";
constexpr const char* window_key = "mwindow";
constexpr std::size_t block_cache_bytes = 8 * mib;
constexpr std::size_t scan_readahead_bytes = 4 * mib;
constexpr std::size_t entry_tokens_at = 112;
constexpr std::size_t extent_value_bytes = 12;
constexpr std::size_t max_log_line_bytes = 512;

std::string prefixed(char prefix, const BlockKey& key) {
  std::string text(1, prefix);
  text.append(reinterpret_cast<const char*>(key.bytes.data()), key.bytes.size());
  return text;
}

// Where the part-th of `parts` equal ranges of the keys behind a prefix begins; the last ends where
// the one after it would begin.
std::string range_start(char prefix, unsigned part, unsigned parts) {
  if (part == 0) return {prefix};
  if (part == parts) return {static_cast<char>(prefix + 1)};
  const unsigned first = part * (1u << 16) / parts;
  return {prefix, static_cast<char>(first >> 8), static_cast<char>(first)};
}

std::string encode_extents(const std::vector<Extent>& extents) {
  std::string value(extents.size() * extent_value_bytes, '\0');
  char* to = value.data();
  for (const Extent& extent : extents) {
    store_le(to, extent.file);
    store_le(to + 4, extent.first);
    store_le(to + 8, extent.units);
    to += extent_value_bytes;
  }
  return value;
}

bool decode_extents(std::string_view value, std::vector<Extent>& extents) {
  if (value.size() % extent_value_bytes != 0) return false;
  for (; !value.empty(); value.remove_prefix(extent_value_bytes))
    extents.push_back({load_le<std::uint32_t>(value.data()),
                       load_le<std::uint32_t>(value.data() + 4),
                       load_le<std::uint32_t>(value.data() + 8)});
  return true;
}

std::string encode_entry(const IndexEntry& entry) {
  const std::size_t token_bytes = entry.tokens.size() * sizeof(Token);
  std::string value(entry_tokens_at + token_bytes, '\0');
  char* const to = value.data();
  store_le(to, entry.extent.file);
  store_le(to + 4, entry.extent.first);
  store_le(to + 8, entry.extent.units);
  store_le(to + 12, static_cast<std::uint32_t>(entry.codec));
  store_le(to + 16, entry.payload_bytes);
  store_le(to + 24, entry.stored_bytes);
  store_le(to + 32, entry.sequence);
  store_le(to + 40, entry.space);
  store_le(to + 72, entry.parent);
  store_le(to + 104, entry.created_unix_ms);
  if (token_bytes > 0) std::memcpy(to + entry_tokens_at, entry.tokens.data(), token_bytes);
  return value;
}

bool decode_entry(std::string_view key, std::string_view value, IndexEntry& entry) {
  if (key.size() != 1 + sizeof(BlockKey) || value.size() < entry_tokens_at ||
      (value.size() - entry_tokens_at) % sizeof(Token) != 0)
    return false;
  const char* const from = value.data();
  entry.key = load_le<BlockKey>(key.data() + 1);
  entry.extent = {load_le<std::uint32_t>(from), load_le<std::uint32_t>(from + 4),
                  load_le<std::uint32_t>(from + 8)};
  const auto codec = load_le<std::uint32_t>(from + 12);
  entry.codec = static_cast<Codec>(codec);
  entry.payload_bytes = load_le<std::uint64_t>(from + 16);
  entry.stored_bytes = load_le<std::uint64_t>(from + 24);
  entry.sequence = load_le<std::uint64_t>(from + 32);
  entry.space = load_le<BlockKey>(from + 40);
  entry.parent = load_le<BlockKey>(from + 72);
  entry.created_unix_ms = load_le<std::int64_t>(from + 104);
  entry.tokens.resize((value.size() - entry_tokens_at) / sizeof(Token));
  if (!entry.tokens.empty())
    std::memcpy(entry.tokens.data(), from + entry_tokens_at, value.size() - entry_tokens_at);
  return is_codec(codec) && entry.payload_bytes > 0 && entry.payload_bytes <= max_block_bytes &&
         entry.stored_bytes <= entry.payload_bytes &&
         entry.extent.bytes() ==
             record_header_bytes + round_up(entry.stored_bytes, extent_unit_bytes);
}

// RocksDB reports some failures of the system to open a file as corruption; they pass, and must
// never cost an index.
bool may_pass(const rocksdb::Status& status) {
  const std::string text = status.ToString();
  for (const int number : {EMFILE, ENFILE, ENOMEM, EIO, EACCES, EPERM, ENOSPC, EROFS})
    if (text.find(std::generic_category().message(number)) != std::string::npos) return true;
  return false;
}

Status to_status(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return {};
  const std::string message = std::string(what) + ": " + status.ToString();
  if (status.IsNoSpace()) return Status(StatusCode::no_space, message);
  const bool lost =
      status.IsCorruption() || status.IsPathNotFound() || status.IsNotFound() ||
      status.IsInvalidArgument() ||
      status.ToString().find(std::generic_category().message(ENOENT)) != std::string::npos;
  if (lost && !may_pass(status)) return Status(StatusCode::corruption, message);
  return Status(StatusCode::io_error, message);
}

// RocksDB's own log file must not be: where it cannot be written (a full disk) RocksDB ends the
// process.
class Log final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, max_log_line_bytes> line;
    std::vsnprintf(line.data(), line.size(), format, arguments);
    spdlog::debug("index: {}", line.data());
  }
};

rocksdb::Options database_options(rocksdb::Env* environment, bool create, std::uint64_t log_bytes) {
  rocksdb::Options options;
  if (environment) options.env = environment;
  options.create_if_missing = create;
  options.error_if_exists = create;
  options.compression = rocksdb::kNoCompression;  // keys are digests
  options.write_buffer_size = log_bytes;
  options.max_total_wal_size = 2 * log_bytes;
  options.manifest_preallocation_size = std::min<std::uint64_t>(4 * mib, log_bytes);
  options.max_open_files = -1;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.info_log = std::make_shared<Log>();
  options.info_log->SetInfoLogLevel(rocksdb::WARN_LEVEL);
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(block_cache_bytes);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace

class Index::Impl {
 public:
  Impl(Files& files, std::string path, std::uint64_t log_bytes)
      : files_(files), path_(std::move(path)), log_bytes_(log_bytes) {}

  Status open(Mode mode) {
    // Without this file RocksDB would see no database and, worse, might make a new one over it.
    read_only_ = mode == Mode::look;
    if (mode != Mode::create) {
      if (const auto there = files_.read_file(path_ + "/CURRENT"); !there) return there.error();
    }
    if (Status opened = reopen(mode == Mode::create); !opened.ok()) return opened;
    if (mode == Mode::create) return {};
    std::string value;
    const rocksdb::Status got = database_->Get(rocksdb::ReadOptions(), version_key, &value);
    if (got.IsNotFound() || (got.ok() && value.size() != sizeof(std::uint32_t)))
      return Status(StatusCode::corruption, "the index is incomplete");
    if (!got.ok()) return to_status(got, "could not read the index");
    if (const auto version = load_le<std::uint32_t>(value.data()); version != index_version)
      return Status(StatusCode::failed_precondition,
                    "index of format version " + std::to_string(version) +
                        "; this program reads version " + std::to_string(index_version));
    return {};
  }

  Status mark_complete() {
    std::string value(sizeof index_version, '\0');
    store_le(value.data(), index_version);
    rocksdb::WriteOptions options;
    options.sync = true;
    return to_status(database_->Put(options, version_key, value), "could not write the index");
  }

  Status commit(const IndexBatch& batch, bool sync) {
    // After a failed write RocksDB takes no more of them until it is opened anew.
    if (!database_) {
      if (Status opened = reopen(false); !opened.ok()) return of_a_write(std::move(opened));
    }
    rocksdb::WriteBatch changes;
    const auto remove = [&changes](const BlockKey& key) {
      changes.Delete(prefixed(block_prefix, key));
      changes.Delete(prefixed(recency_prefix, key));
    };
    for (const BlockKey& key : undo_) remove(key);
    for (const BlockKey& key : batch.deletes) remove(key);
    for (const IndexEntry& entry : batch.puts)
      changes.Put(prefixed(block_prefix, entry.key), encode_entry(entry));
    for (const auto& [key, recency] : batch.recency) {
      std::array<char, sizeof recency> value;
      store_le(value.data(), recency);
      changes.Put(prefixed(recency_prefix, key), rocksdb::Slice(value.data(), value.size()));
    }
    if (batch.window) changes.Put(window_key, encode_extents(*batch.window));
    for (const auto& [name, value] : batch.notes) {
      if (value.empty())
        changes.Delete(note_prefix + name);
      else
        changes.Put(note_prefix + name, value);
    }
    rocksdb::WriteOptions options;
    options.sync = sync;
    const rocksdb::Status written = database_->Write(options, &changes);
    if (written.ok()) {
      undo_.clear();
      return {};
    }
    for (const IndexEntry& entry : batch.puts) undo_.push_back(entry.key);
    database_.reset();
    return of_a_write(to_status(written, "could not write the index"));
  }

  Status scan(unsigned part, unsigned parts, const Index::Visit& visit) const {
    const std::string block_end = range_start(block_prefix, part + 1, parts);
    const std::string recency_end = range_start(recency_prefix, part + 1, parts);
    const rocksdb::Slice block_bound(block_end), recency_bound(recency_end);
    rocksdb::ReadOptions options;
    options.fill_cache = false;
    options.readahead_size = scan_readahead_bytes;
    options.iterate_upper_bound = &block_bound;
    const std::unique_ptr<rocksdb::Iterator> blocks(database_->NewIterator(options));
    options.iterate_upper_bound = &recency_bound;
    const std::unique_ptr<rocksdb::Iterator> recencies(database_->NewIterator(options));
    // Both runs are in the order of the keys, so they are walked side by side.
    recencies->Seek(range_start(recency_prefix, part, parts));
    std::string wanted(1 + sizeof(BlockKey), recency_prefix);
    IndexEntry entry;
    for (blocks->Seek(range_start(block_prefix, part, parts)); blocks->Valid(); blocks->Next()) {
      if (!decode_entry(blocks->key().ToStringView(), blocks->value().ToStringView(), entry))
        return Status(StatusCode::corruption, "an entry of the index makes no sense");
      wanted.replace(1, sizeof entry.key, blocks->key().data() + 1, sizeof entry.key);
      while (recencies->Valid() && recencies->key().compare(wanted) < 0) recencies->Next();
      std::uint64_t recency = 0;
      if (recencies->Valid() && recencies->key() == rocksdb::Slice(wanted) &&
          recencies->value().size() == sizeof recency)
        recency = load_le<std::uint64_t>(recencies->value().data());
      visit(entry, recency);
    }
    if (!blocks->status().ok()) return to_status(blocks->status(), "could not read the index");
    return to_status(recencies->status(), "could not read the index");
  }

  std::uint64_t estimated_entries() const {
    std::uint64_t keys = 0;
    database_->GetIntProperty(rocksdb::DB::Properties::kEstimateNumKeys, &keys);
    return keys / 2;  // each has its recency beside it
  }

  Result<std::vector<Extent>> window() const {
    std::string value;
    const rocksdb::Status got = database_->Get(rocksdb::ReadOptions(), window_key, &value);
    std::vector<Extent> extents;
    if (got.IsNotFound()) return extents;
    if (!got.ok()) return error(to_status(got, "could not read the index"));
    if (!decode_extents(value, extents))
      return error(StatusCode::corruption, "the write window of the index makes no sense");
    return extents;
  }

  Result<std::vector<std::pair<std::string, std::string>>> notes() const {
    std::vector<std::pair<std::string, std::string>> found;
    const std::unique_ptr<rocksdb::Iterator> at(database_->NewIterator(rocksdb::ReadOptions()));
    const rocksdb::Slice prefix(&note_prefix, 1);
    for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next())
      found.emplace_back(at->key().ToString().substr(1), at->value().ToString());
    if (!at->status().ok()) return error(to_status(at->status(), "could not read the index"));
    return found;
  }

  std::uint64_t allocated_bytes() const { return files_.allocated_bytes(path_); }

  Status flush() {
    if (!database_) return {};
    return to_status(database_->Flush(rocksdb::FlushOptions()), "could not write the index");
  }

 private:
  // corruption as the outcome of a write means that the payload is wrong, which it is not.
  static Status of_a_write(Status failed) {
    if (failed.code() == StatusCode::no_space) return failed;
    return Status(StatusCode::io_error, failed.message());
  }

  Status reopen(bool create) {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Options options =
        database_options(files_.index_environment(), create, log_bytes_);
    const rocksdb::Status status = read_only_
                                       ? rocksdb::DB::OpenForReadOnly(options, path_, &opened)
                                       : rocksdb::DB::Open(options, path_, &opened);
    database_.reset(opened);
    return to_status(status, "could not open the index");
  }

  Files& files_;
  const std::string path_;
  const std::uint64_t log_bytes_;
  bool read_only_ = false;
  std::unique_ptr<rocksdb::DB> database_;
  std::vector<BlockKey> undo_;  // puts whose commit failed and may yet be on the disk
};

Index::Index(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Index::~Index() = default;

Result<std::unique_ptr<Index>> Index::open(Files& files, const std::string& path, Mode mode,
                                           std::uint64_t log_bytes) {
  auto impl = std::make_unique<Impl>(files, path, log_bytes);
  if (Status opened = impl->open(mode); !opened.ok()) return error(opened);
  return std::unique_ptr<Index>(new Index(std::move(impl)));
}

Status Index::mark_complete() { return impl_->mark_complete(); }
Status Index::commit(const IndexBatch& batch, bool sync) { return impl_->commit(batch, sync); }
Status Index::scan(unsigned part, unsigned parts, const Visit& visit) const {
  return impl_->scan(part, parts, visit);
}
std::uint64_t Index::estimated_entries() const { return impl_->estimated_entries(); }
Result<std::vector<Extent>> Index::window() const { return impl_->window(); }
Result<std::vector<std::pair<std::string, std::string>>> Index::notes() const {
  return impl_->notes();
}
std::uint64_t Index::allocated_bytes() const { return impl_->allocated_bytes(); }
Status Index::flush() { return impl_->flush(); }

}  // namespace terrace::storage
