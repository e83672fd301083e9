#include "storage/disk/data_files.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "storage/disk/located_table.h"

namespace terrace::storage {

namespace {

constexpr std::string_view name_prefix = "data-";

}  // namespace

DataFiles::DataFiles(Files& files, std::string directory, std::uint64_t file_bytes,
                     std::uint64_t capacity_bytes)
    : files_(files),
      directory_(std::move(directory)),
      file_bytes_(std::clamp(file_bytes / extent_unit_bytes * extent_unit_bytes, extent_unit_bytes,
                             max_data_file_bytes)),
      capacity_bytes_(capacity_bytes) {}

std::string DataFiles::path(std::uint32_t file) const {
  char name[32];
  std::snprintf(name, sizeof name, "/data-%06u", file);
  return directory_ + name;
}

void DataFiles::adopt(std::uint32_t file, Files::DataFile opened, std::uint64_t bytes) {
  if (!opened.direct && direct_) {
    spdlog::warn("disk: the file system of {} has no direct I/O; the page cache is used",
                 directory_);
    direct_ = false;
  }
  total_bytes_ += bytes;
  files_by_number_[file] = {std::move(opened.fd),
                            static_cast<std::uint32_t>(bytes / extent_unit_bytes)};
}

Status DataFiles::open() {
  const auto names = files_.list(directory_);
  if (!names) return names.error();
  for (const std::string& name : *names) {
    if (!name.starts_with(name_prefix)) continue;
    std::uint32_t file = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + name_prefix.size(), end, file);
    if (parsed.ec != std::errc() || parsed.ptr != end || file >= max_data_files) continue;
    auto opened = files_.open_data_file(path(file), false);
    if (!opened) return opened.error();
    const auto bytes = files_.size(opened->fd.get());
    if (!bytes) return bytes.error();
    adopt(file, std::move(*opened), std::min(*bytes, max_data_file_bytes));
  }
  return {};
}

Result<std::uint32_t> DataFiles::grow(std::uint64_t bytes) {
  const std::uint64_t left =
      capacity_bytes_ > total_bytes_
          ? (capacity_bytes_ - total_bytes_) / extent_unit_bytes * extent_unit_bytes
          : 0;
  if (left < bytes) return error(StatusCode::no_space, "the disk tier is at its capacity");
  const std::uint64_t size = std::min(std::max(file_bytes_, bytes), left);
  const std::uint32_t file = files_by_number_.empty() ? 0 : files_by_number_.rbegin()->first + 1;
  if (file >= max_data_files)
    return error(StatusCode::no_space,
                 "a data directory has at most " + std::to_string(max_data_files) + " data files");
  // What an earlier attempt may have left behind.
  if (Status removed = files_.remove(path(file)); !removed.ok()) return error(removed);
  auto opened = files_.open_data_file(path(file), true);
  if (!opened) return error(opened.error());
  Status made = files_.preallocate(opened->fd.get(), size);
  if (made.ok()) made = files_.sync_directory(directory_);
  if (!made.ok()) {
    if (Status removed = files_.remove(path(file)); !removed.ok())
      spdlog::warn("disk: {}", removed.message());
    return error(made);
  }
  adopt(file, std::move(*opened), size);
  return file;
}

void DataFiles::release(const Extent& extent) {
  if (!over_capacity()) return;
  if (Status punched = files_.punch_hole(fd(extent.file), extent.offset_bytes(), extent.bytes());
      !punched.ok())
    spdlog::warn("disk: {}", punched.message());
}

std::uint32_t DataFiles::units(std::uint32_t file) const {
  const auto at = files_by_number_.find(file);
  return at == files_by_number_.end() ? 0 : at->second.units;
}

std::map<std::uint32_t, std::uint32_t> DataFiles::all_units() const {
  std::map<std::uint32_t, std::uint32_t> units;
  for (const auto& [file, opened] : files_by_number_) units[file] = opened.units;
  return units;
}

}  // namespace terrace::storage
