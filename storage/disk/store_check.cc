#include "storage/disk/store_check.h"

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "storage/codec/payload_codec.h"
#include "storage/disk/disk_operation.h"
#include "storage/disk/disk_store.h"
#include "storage/disk/rebuild.h"
#include "storage/disk/recovery.h"

namespace terrace::storage {

namespace {

// The record is read into the operation's buffers as a store would do it.
Status read_record(Files& files, const DataFiles& data, ReadOperation& operation) {
  const Extent& extent = operation.located.extent;
  if (extent.end() > data.units(extent.file))
    return Status(StatusCode::corruption, "the data file ends before it, or is gone");
  std::uint64_t offset = extent.offset_bytes();
  for (const iovec& part : operation.buffers.iovecs()) {
    const auto got = files.read(data.fd(extent.file), offset,
                                {static_cast<std::byte*>(part.iov_base), part.iov_len});
    if (!got) return got.error();
    if (*got != part.iov_len)
      return Status(StatusCode::corruption, "the data file ends inside the record");
    offset += part.iov_len;
  }
  return {};
}

class RecordReader {
 public:
  RecordReader(Files& files, const DataFiles& data) : files_(files), data_(data) {
    for (const Codec codec : {Codec::raw, Codec::zstd, Codec::planes})
      codecs_[static_cast<std::size_t>(codec)] = make_payload_codec(codec, min_zstd_level);
  }

  // ok, or why the entry's record does not verify.
  Status look_at(const IndexEntry& entry) {
    payload_.ensure(entry.payload_bytes);
    operation_.request.space = entry.space;
    operation_.request.key = entry.key;
    operation_.request.parent = entry.parent;
    operation_.request.tokens = entry.tokens;
    operation_.request.destination = payload_.span().first(entry.payload_bytes);
    operation_.located = {entry.extent, entry.codec};
    operation_.prepare();
    if (Status read = read_record(files_, data_, operation_); !read.ok()) return read;
    const auto header = operation_.verify_header();
    // What was asked for is what the index says.
    if (!header && header.error().code() == StatusCode::invalid_argument)
      return Status(StatusCode::corruption, header.error().message());
    if (!header) return header.error();
    const auto checksum =
        operation_.verify_payload(*header, codecs_[static_cast<std::size_t>(header->codec)].get());
    return checksum ? Status() : checksum.error();
  }

 private:
  Files& files_;
  const DataFiles& data_;
  ReadOperation operation_;
  AlignedBuffer payload_;
  std::array<std::unique_ptr<PayloadCodec>, 3> codecs_;
};

// What the index says is there, or, where it is of no use, what says so of itself.
Result<std::vector<IndexEntry>> find_entries(const std::string& directory, Files& files,
                                             const DataFiles& data, std::string& index_problem) {
  std::vector<IndexEntry> entries;
  auto index = Index::open(files, directory + "/index", Index::Mode::look);
  Status problem = index ? Status() : index.error();
  if (index)
    problem = (*index)->scan(
        0, 1, [&](const IndexEntry& entry, std::uint64_t) { entries.push_back(entry); });
  if (problem.ok()) return entries;
  if (problem.code() != StatusCode::corruption && problem.code() != StatusCode::not_found)
    return error(problem);
  if (problem.code() == StatusCode::not_found && data.all_units().empty())
    return std::vector<IndexEntry>();
  index_problem = problem.code() == StatusCode::not_found ? "there is none" : problem.message();
  return find_records(files, data);
}

}  // namespace

Result<StoreCheck> check_store(const std::string& directory, Files& files,
                               const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  // Before the lock: its file would make a store of any directory.
  const auto format = check_store_format(directory, files);
  if (!format) return error(format.error());
  if (!*format)
    return error(StatusCode::not_found, directory + " is no data directory of terraced");
  const auto lock = lock_store(directory, files);
  if (!lock) return error(lock.error());
  const auto spaces = read_store_spaces(spaces_directory(directory), files);
  if (!spaces) return error(spaces.error());
  std::unordered_set<BlockKey> known;
  for (const SpaceDescriptor& space : *spaces) known.insert(space.digest());
  DataFiles data(files, directory, gib, UINT64_MAX);
  if (Status opened = data.open(); !opened.ok()) return error(opened);
  StoreCheck check;
  check.spaces = spaces->size();
  const auto entries = find_entries(directory, files, data, check.index_problem);
  if (!entries) return error(entries.error());
  RecordReader reader(files, data);
  for (const IndexEntry& entry : *entries) {
    if (!progress(check.records, entries->size())) break;
    Status problem = reader.look_at(entry);
    if (problem.ok() && !known.contains(entry.space))
      problem = Status(StatusCode::corruption, "its space is not known");
    ++check.records;
    check.bytes += entry.extent.bytes();
    if (problem.ok() || check.bad.size() == max_bad_records) continue;
    check.bad.push_back(
        {entry.space, entry.key, entry.parent, entry.tokens, entry.payload_bytes,
         data.path(entry.extent.file) + " at " + std::to_string(entry.extent.offset_bytes()),
         problem.message()});
  }
  return check;
}

Result<std::uint64_t> repair_store(const DiskOptions& options, const StoreCheck& check) {
  // Before the store, whose threads use them until it ends.
  std::mutex mutex;
  std::condition_variable arrived;
  bool news = false;
  auto store = DiskStore::open(options);
  if (!store) return error(store.error());
  (*store)->set_notify([&] {
    const std::lock_guard lock(mutex);
    news = true;
    arrived.notify_one();
  });
  const auto wait = [&] {
    for (;;) {
      std::vector<DiskCompletion> completions;
      (*store)->take_completions(completions);
      if (!completions.empty()) return completions.front().status;
      std::unique_lock lock(mutex);
      arrived.wait(lock, [&] { return news; });
      news = false;
    }
  };
  std::uint64_t gone = 0;
  AlignedBuffer payload;
  Ticket ticket = 0;
  for (const BadRecord& bad : check.bad) {
    payload.ensure(bad.payload_bytes);
    (*store)->read({.ticket = ++ticket,
                    .space = bad.space,
                    .key = bad.key,
                    .parent = bad.parent,
                    .tokens = bad.tokens,
                    .destination = payload.span().first(bad.payload_bytes)});
    const StatusCode code = wait().code();
    // not_found: opening the store has dropped it.
    gone += code == StatusCode::corruption || code == StatusCode::not_found;
  }
  (*store)->flush(++ticket);
  if (Status flushed = wait(); !flushed.ok()) return error(flushed);
  (*store)->set_notify(nullptr);
  return gone;
}

}  // namespace terrace::storage
