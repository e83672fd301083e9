// Files in memory that know what a crash may leave of them: each sector that was written since the
// last sync may have any of its contents since then, and a name that was made, removed or renamed
// since its directory was synced may be there or not.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/sim/random.h"

namespace terrace::sim {

constexpr std::size_t sector_bytes = 512, unit_bytes = 4096;

// One thread at a time.
class SimulatedFile {
 public:
  std::span<const std::byte> bytes() const { return bytes_; }
  std::uint64_t size() const { return bytes_.size(); }
  // What it takes of the disk: whole units, without holes.
  std::uint64_t allocated_bytes() const;
  // The first offset from `offset` on that lies in what was ever written.
  std::optional<std::uint64_t> next_data(std::uint64_t offset) const;

  // Counts the writes, so that a sync can say which of them it makes durable.
  std::uint64_t last_write() const { return last_write_; }
  void write(std::uint64_t offset, std::span<const std::byte> from);
  // The length is durable at once; room that is new was never written.
  void allocate(std::uint64_t bytes);
  void punch_hole(std::uint64_t offset, std::uint64_t bytes);
  void truncate(std::uint64_t bytes);
  // A bit changes where it lies.
  void flip(std::uint64_t offset, unsigned bit);

  // Everything up to a write is durable; or it is as after an fsync that failed: a later sync does
  // not make it durable any more.
  void sync(std::uint64_t up_to_write);
  void sync_failed(std::uint64_t up_to_write);
  // Another process opens it: a sync that failed is forgotten.
  void forget_failures();

  // What a crash leaves. Torn at sectors or at units.
  std::shared_ptr<SimulatedFile> after_crash(Random& random) const;

 private:
  using Sector = std::array<std::byte, sector_bytes>;
  struct Version {
    std::uint64_t write = 0;
    bool stuck = false;  // a sync of it failed
    Sector bytes{};
  };

  Sector sector(std::uint64_t number) const;

  std::vector<std::byte> bytes_;
  std::uint64_t durable_bytes_ = 0;  // of its length
  std::uint64_t last_write_ = 0;
  std::set<std::uint64_t> written_units_, holes_;
  // Of each sector that is not durable all contents that it may have, the durable one first.
  std::map<std::uint64_t, std::vector<Version>> unsynced_;
};

// Any thread.
class SimulatedFiles {
 public:
  using File = std::shared_ptr<SimulatedFile>;

  SimulatedFiles() = default;

  // Null if there is none.
  File find(const std::string& path) const;
  bool is_directory(const std::string& path) const;
  // In place of what is there.
  File create(const std::string& path);
  void create_directories(const std::string& path);
  // Whether it was there. A directory goes with all that is in it, for good.
  bool remove(const std::string& path);
  bool rename(const std::string& from, const std::string& to);
  std::vector<std::string> list(const std::string& directory) const;
  void sync_directory(const std::string& directory);
  std::uint64_t allocated_bytes(const std::string& directory) const;
  // Of all files.
  std::uint64_t allocated_bytes() const { return allocated_bytes(""); }

  // Everything as it is for a new process.
  std::unique_ptr<SimulatedFiles> copy() const;
  // What a crash leaves of everything.
  std::unique_ptr<SimulatedFiles> after_crash(Random& random) const;

  // Held by whoever reads or changes a file that others may, too.
  std::mutex& mutex() const { return mutex_; }

 private:
  using Names = std::map<std::string, File>;

  mutable std::mutex mutex_;
  Names names_, durable_names_;
  std::set<std::string> directories_;
};

}  // namespace terrace::sim
