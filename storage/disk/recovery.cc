#include "storage/disk/recovery.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <thread>
#include <unordered_set>
#include <utility>

#include "core/space_file.h"
#include "storage/disk/rebuild.h"

namespace terrace::storage {

namespace {

constexpr std::string_view format_prefix = "terrace disk format ";

}  // namespace

Result<UniqueFd> lock_store(const std::string& directory, Files& files) {
  auto locked = files.lock_file(directory + "/LOCK", std::to_string(::getpid()) + "\n");
  if (locked || locked.error().code() != StatusCode::already_exists) return locked;
  std::string owner = locked.error().message();
  while (!owner.empty() && owner.back() == '\n') owner.pop_back();
  return error(StatusCode::already_exists, "data directory " + directory +
                                               " is in use by another daemon" +
                                               (owner.empty() ? "" : " (pid " + owner + ")"));
}

Result<bool> check_store_format(const std::string& directory, Files& files) {
  const auto text = files.read_file(directory + "/FORMAT");
  if (!text) {
    if (text.error().code() == StatusCode::not_found) return false;
    return error(text.error());
  }
  std::uint32_t version = 0;
  const char* const end = text->data() + text->size();
  const bool known =
      text->starts_with(format_prefix) &&
      std::from_chars(text->data() + format_prefix.size(), end, version).ec == std::errc();
  if (known && version == disk_format_version) return true;
  return error(StatusCode::failed_precondition,
               "data directory " + directory + " has " +
                   (known ? "disk format version " + std::to_string(version)
                          : std::string("an unknown disk format")) +
                   "; this program reads version " + std::to_string(disk_format_version));
}

Result<std::vector<SpaceDescriptor>> read_store_spaces(const std::string& directory, Files& files) {
  std::vector<SpaceDescriptor> spaces;
  const auto names = files.list(directory);
  if (!names) return error(names.error());
  for (const std::string& name : *names) {
    if (!name.ends_with(".space")) continue;
    const auto contents = files.read_file(directory + "/" + name);
    if (!contents) return error(contents.error());
    auto space = decode_space(*contents);
    if (space && space_file_name(*space) == name) {
      spaces.push_back(std::move(*space));
    } else if (!space && space.error().code() != StatusCode::corruption) {
      return error(space.error().with_context(directory + "/" + name));
    } else {
      spdlog::warn("disk: {}/{} does not verify; its blocks are lost", directory, name);
    }
  }
  return spaces;
}

namespace {

// An estimate is not believed without bound.
constexpr std::uint64_t max_estimated_entries = 20'000'000;
constexpr unsigned max_scan_threads = 8;
// Fewer entries are not worth a thread.
constexpr std::uint64_t least_entries_a_thread = 20'000;
// How far ahead memory is asked for that is read in another order than it was written.
constexpr std::size_t prefetch_distance = 8;
constexpr std::size_t cache_line_bytes = 64;

struct Indexed {
  RecoveredBlock block;
  LocatedBlock located;
  std::uint64_t sequence = 0;
};

// What one thread read of the index.
class Entries {
 public:
  void reserve(std::size_t size) { all_.reserve(size); }
  void add(const IndexEntry& entry, std::uint64_t recency) {
    all_.push_back({{entry.space, entry.key, entry.parent, packer_.copy(entry.tokens),
                     entry.extent.bytes(), recency, entry.created_unix_ms},
                    {entry.extent, entry.codec},
                    entry.sequence});
  }
  std::size_t size() const { return all_.size(); }
  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  auto begin() const { return all_.begin(); }
  auto end() const { return all_.end(); }

 private:
  std::vector<Indexed> all_;
  TokenPacker packer_;
};
using EntryParts = std::vector<Entries>;  // at least one

Result<EntryParts> scan(const Index& index) {
  const std::uint64_t estimated = std::min(index.estimated_entries(), max_estimated_entries);
  const auto parts = static_cast<unsigned>(
      std::clamp<std::uint64_t>(std::min<std::uint64_t>(std::thread::hardware_concurrency(),
                                                        estimated / least_entries_a_thread),
                                1, max_scan_threads));
  EntryParts entries(parts);
  std::vector<Status> outcomes(parts);
  const auto scan_part = [&](unsigned part) {
    // A little more than its share: what grows is copied.
    entries[part].reserve(estimated / parts + estimated / parts / 16);
    outcomes[part] =
        index.scan(part, parts, [&mine = entries[part]](const IndexEntry& entry, auto recency) {
          mine.add(entry, recency);
        });
  };
  std::vector<std::thread> others;
  for (unsigned part = 1; part < parts; ++part) others.emplace_back(scan_part, part);
  scan_part(0);
  for (std::thread& other : others) other.join();
  for (const Status& outcome : outcomes)
    if (!outcome.ok()) return error(outcome);
  return entries;
}

// Makes the index anew from the records. What was there of it goes only after they were read.
Result<EntryParts> rebuild(const std::string& path, std::uint64_t log_bytes, Files& files,
                           OpenedStore& store) {
  auto found = find_records(files, *store.data);
  if (!found) return error(found.error().with_context("could not rebuild the index"));
  store.index.reset();
  if (Status removed = files.remove(path); !removed.ok()) return error(removed);
  auto index = Index::open(files, path, Index::Mode::create, log_bytes);
  if (!index) return error(index.error());
  store.index = std::move(*index);
  EntryParts entries(1);
  entries[0].reserve(found->size());
  for (std::size_t at = 0; at < found->size();) {
    IndexBatch batch;
    for (; at < found->size() && batch.puts.size() < max_commit_blocks; ++at) {
      IndexEntry& entry = (*found)[at];
      batch.recency.emplace_back(entry.key, entry.sequence);
      entries[0].add(entry, entry.sequence);
      batch.puts.push_back(std::move(entry));
    }
    if (Status written = store.index->commit(batch, false); !written.ok()) return error(written);
  }
  if (Status marked = store.index->mark_complete(); !marked.ok()) return error(marked);
  return entries;
}

// The parts of `runs` that no entry names.
std::vector<Extent> without_entries(const std::vector<Extent>& runs, const EntryParts& parts) {
  ExtentAllocator unnamed;
  for (const Extent& run : runs) unnamed.free(run);
  const std::vector<Extent> sorted = unnamed.free_extents();
  if (sorted.empty()) return sorted;
  const auto take_out = [&](const Extent& extent) {
    auto run = std::ranges::upper_bound(sorted, extent);
    if (run != sorted.begin()) --run;
    for (; run != sorted.end() && run->file <= extent.file; ++run) {
      if (run->file == extent.file && run->first >= extent.end()) break;
      const std::uint64_t first = std::max(run->first, extent.first);
      const std::uint64_t end = std::min(run->end(), extent.end());
      if (run->file == extent.file && first < end)
        unnamed.claim({extent.file, static_cast<std::uint32_t>(first),
                       static_cast<std::uint32_t>(end - first)});
    }
  };
  for (const Entries& entries : parts)
    for (const Indexed& indexed : entries) take_out(indexed.located.extent);
  return unnamed.free_extents();
}

// Adds the blocks that were acknowledged as durable before their entries were committed.
Status add_uncommitted(const std::vector<Extent>& window, Files& files, OpenedStore& store,
                       EntryParts& parts) {
  if (window.empty()) return {};
  auto found = find_whole_records(files, *store.data, without_entries(window, parts));
  if (!found) return found.error().with_context("could not look through the write window");
  std::unordered_set<BlockKey> unknown;
  for (const FoundRecord& record : *found) unknown.insert(record.entry.key);
  std::uint64_t sequence = 0;
  for (const Entries& entries : parts) {
    for (const Indexed& indexed : entries) {
      if (!unknown.empty()) unknown.erase(indexed.block.key);
      sequence = std::max(sequence, indexed.sequence);
    }
  }
  IndexBatch batch;
  batch.window.emplace();
  const auto commit = [&] {
    const Status written = store.index->commit(batch, true);
    batch = {};
    return written;
  };
  // What a process that died had written need not be on the device.
  std::set<std::uint32_t> files_found;
  for (const FoundRecord& record : *found) files_found.insert(record.entry.extent.file);
  for (const std::uint32_t file : files_found)
    if (Status synced = store.data->sync(file); !synced.ok()) return synced;
  std::size_t added = 0;
  // Of two of one key the later.
  for (auto record = found->rbegin(); record != found->rend(); ++record) {
    if (unknown.erase(record->entry.key) == 0) continue;
    record->entry.sequence = ++sequence;
    // Recency is the time, or a little more than that, and the second before a crash is lost.
    const auto recency =
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, record->written_unix_ms));
    batch.recency.emplace_back(record->entry.key, recency);
    parts.front().add(record->entry, recency);
    batch.puts.push_back(std::move(record->entry));
    ++added;
    if (batch.puts.size() < max_commit_blocks) continue;
    // The window goes with the last of them.
    const auto none = std::exchange(batch.window, std::nullopt);
    if (Status written = commit(); !written.ok()) return written;
    batch.window = none;
  }
  if (added > 0) spdlog::info("disk: found {} records that the index did not know yet", added);
  return commit();
}

Result<EntryParts> open_index(const std::string& path, std::uint64_t log_bytes, Files& files,
                              OpenedStore& store) {
  Status problem;
  if (auto index = Index::open(files, path, Index::Mode::open, log_bytes)) {
    store.index = std::move(*index);
    auto entries = scan(*store.index);
    const auto window = store.index->window();
    auto notes = store.index->notes();
    if (entries && window && notes) {
      if (Status added = add_uncommitted(*window, files, store, *entries); !added.ok())
        return error(added);
      for (auto& [name, value] : *notes) store.notes.push_back({std::move(name), std::move(value)});
      return entries;
    }
    problem = !entries ? entries.error() : !window ? window.error() : notes.error();
  } else {
    problem = index.error();
  }
  const bool lost = problem.code() == StatusCode::not_found;
  if (!lost && problem.code() != StatusCode::corruption) return error(problem);
  const bool empty = lost && store.data->all_units().empty();
  if (!empty) spdlog::warn("disk: {}; rebuilding the index from the records", problem.message());
  auto entries = rebuild(path, log_bytes, files, store);
  if (entries && !empty) spdlog::info("disk: found {} records", entries->front().size());
  return entries;
}

// Entries that can be served, by sequence: written one after the other, they are also needed so.
struct Ordered {
  std::uint64_t sequence = 0;
  Indexed* entry = nullptr;
};

// Claims the extents of all entries, or of none: false if two overlap, or one lies outside of the
// files. Neighbours are claimed together, which takes a fraction of the time.
bool claim_together(const std::vector<Ordered>& entries, ExtentAllocator& allocator) {
  std::vector<Extent> runs;
  runs.reserve(entries.size());
  for (const Ordered& one : entries) runs.push_back(one.entry->located.extent);
  if (!std::ranges::is_sorted(runs)) std::ranges::sort(runs);
  std::size_t used = 0;
  for (const Extent& extent : runs) {
    Extent* const before = used == 0 ? nullptr : &runs[used - 1];
    if (!before || before->file != extent.file || before->end() < extent.first) {
      runs[used++] = extent;
      continue;
    }
    if (before->end() > extent.first || std::uint64_t{before->units} + extent.units > UINT32_MAX)
      return false;
    before->units += extent.units;
  }
  runs.resize(used);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (allocator.claim(runs[i])) continue;
    while (i-- > 0) allocator.free(runs[i]);
    return false;
  }
  return true;
}

// Claims one after the other, the newest first; takes out those that cannot be.
void claim_each(std::vector<Ordered>& entries, ExtentAllocator& allocator,
                std::vector<BlockKey>& dropped) {
  std::vector<Ordered> claimed;
  for (auto one = entries.rbegin(); one != entries.rend(); ++one) {
    if (allocator.claim(one->entry->located.extent))
      claimed.push_back(*one);
    else
      dropped.push_back(one->entry->block.key);
  }
  std::ranges::reverse(claimed);
  entries = std::move(claimed);
}

void prefetch(const Indexed& entry) {
  for (std::size_t at = 0; at < sizeof entry; at += cache_line_bytes)
    __builtin_prefetch(reinterpret_cast<const std::byte*>(&entry) + at);
}

// Takes the entries into the store, and returns the keys of those that cannot be: of two that
// overlap the older.
std::vector<BlockKey> adopt(EntryParts parts, OpenedStore& store) {
  std::unordered_set<BlockKey> known_spaces;
  for (const SpaceDescriptor& space : store.spaces) known_spaces.insert(space.digest());
  std::vector<BlockKey> dropped;
  std::vector<Ordered> entries;
  std::size_t size = 0;
  for (const Entries& part : parts) size += part.size();
  entries.reserve(size);
  for (Entries& part : parts) {
    for (Indexed& entry : part) {
      store.next_sequence = std::max(store.next_sequence, entry.sequence + 1);
      if (known_spaces.contains(entry.block.space))
        entries.push_back({entry.sequence, &entry});
      else
        dropped.push_back(entry.block.key);
    }
  }
  std::ranges::sort(entries, {}, &Ordered::sequence);
  if (!claim_together(entries, store.allocator)) claim_each(entries, store.allocator, dropped);

  store.blocks.reserve(entries.size());
  // The keys stay where they are while the blocks are moved.
  std::thread locating([&entries, &located = store.located] {
    located.reserve(entries.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i + prefetch_distance < entries.size()) prefetch(*entries[i + prefetch_distance].entry);
      located.put(entries[i].entry->block.key, entries[i].entry->located);
    }
  });
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i + prefetch_distance < entries.size()) prefetch(*entries[i + prefetch_distance].entry);
    store.blocks.push_back(std::move(entries[i].entry->block));
  }
  locating.join();
  return dropped;
}

Status forget(Index& index, const std::vector<BlockKey>& keys) {
  for (std::size_t at = 0; at < keys.size(); at += max_commit_blocks) {
    IndexBatch batch;
    const auto first = keys.begin() + static_cast<std::ptrdiff_t>(at);
    batch.deletes.assign(
        first, first + static_cast<std::ptrdiff_t>(std::min(max_commit_blocks, keys.size() - at)));
    if (Status written = index.commit(batch, true); !written.ok()) return written;
  }
  return {};
}

}  // namespace

std::string spaces_directory(const std::string& directory) { return directory + "/spaces"; }

Result<OpenedStore> open_store(const DiskOptions& options, Files& files) {
  const std::string& directory = options.directory;
  OpenedStore store;
  if (Status made = files.create_directories(spaces_directory(directory)); !made.ok())
    return error(made);
  auto locked = lock_store(directory, files);
  if (!locked) return error(locked.error());
  store.lock = std::move(*locked);

  const auto has_format = check_store_format(directory, files);
  if (!has_format) return error(has_format.error());
  auto spaces = read_store_spaces(spaces_directory(directory), files);
  if (!spaces) return error(spaces.error());
  store.spaces = std::move(*spaces);
  // What is found need not be durable: the process before may have died, or failed, just before it
  // made it so.
  for (const std::string& one : {spaces_directory(directory), directory})
    if (Status synced = files.sync_directory(one); !synced.ok()) return error(synced);
  store.data = std::make_unique<DataFiles>(files, directory, options.file_bytes,
                                           data_capacity_bytes(options, 0));
  if (Status opened = store.data->open(); !opened.ok()) return error(opened);
  auto entries = open_index(directory + "/index", index_log_bytes(options), files, store);
  if (!entries) return error(entries.error());
  if (!*has_format) {
    const std::string text =
        std::string(format_prefix) + std::to_string(disk_format_version) + "\n";
    if (Status written = files.write_file(directory + "/FORMAT", std::as_bytes(std::span(text)));
        !written.ok())
      return error(written);
  }

  for (const auto& [file, units] : store.data->all_units()) store.allocator.add_file(file, units);
  const std::vector<BlockKey> dropped = adopt(std::move(*entries), store);
  if (!dropped.empty()) {
    spdlog::warn("disk: dropped {} index entries that cannot be served", dropped.size());
    if (Status written = forget(*store.index, dropped); !written.ok()) return error(written);
  }
  for (const Extent& extent : store.allocator.free_extents()) store.data->release(extent);
  return store;
}

}  // namespace terrace::storage
