#include "bench/tiers.h"

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>

#include "bench/environment.h"
#include "bench/tier_copies.h"
#include "bench/tier_disk.h"
#include "core/bytes.h"
#include "storage/device/host_accelerator.h"
#include "tests/support/temp_dir.h"

namespace terrace::bench {

namespace {

constexpr std::size_t quick_bytes = 64 * mib;

// Of several sizes the worst: the line's keys that stand for all of them.
struct Worst {
  double host_to_device = std::numeric_limits<double>::infinity(), device_to_host = host_to_device,
         read = host_to_device, write = host_to_device, write_one_sync = host_to_device,
         read_GBps = host_to_device, write_GBps = host_to_device;
  double amplification = 0;
  std::int64_t page_cache_growth = 0;

  void add(const CopyFigures& copies, const DiskFigures& disk) {
    const auto lower = [](double& worst, double value) { worst = std::min(worst, value); };
    lower(host_to_device, copies.host_to_device_ratio());
    lower(device_to_host, copies.device_to_host_ratio());
    lower(read, disk.read_ratio());
    lower(write, disk.write_ratio());
    lower(write_one_sync, disk.write_one_sync_ratio());
    lower(read_GBps, disk.read_GBps.median());
    lower(write_GBps, disk.write_GBps.median());
    amplification = std::max(amplification, disk.write_amplification);
    page_cache_growth = std::max(page_cache_growth, disk.page_cache_growth_bytes);
  }
};

nlohmann::ordered_json size_fields(const CopyFigures& copies, const DiskFigures& disk) {
  return {{"block_bytes", disk.block_bytes},
          {"host_to_device_ratio", copies.host_to_device_ratio()},
          {"device_to_host_ratio", copies.device_to_host_ratio()},
          {"host_to_device_GBps", copies.host_to_device_GBps.median()},
          {"device_to_host_GBps", copies.device_to_host_GBps.median()},
          {"memcpy_GBps", copies.to_device_floor_GBps.median()},
          {"disk_read_ratio", disk.read_ratio()},
          {"disk_write_ratio", disk.write_ratio()},
          {"disk_write_one_sync_ratio", disk.write_one_sync_ratio()},
          {"disk_read_GBps", disk.read_GBps.median()},
          {"disk_write_GBps", disk.write_GBps.median()},
          {"bare_read_GBps", disk.bare_read_GBps.median()},
          {"bare_write_GBps", disk.bare_write_GBps.median()},
          {"bare_write_one_sync_GBps", disk.bare_write_one_sync_GBps.median()},
          {"write_amplification", disk.write_amplification},
          {"page_cache_growth_bytes", disk.page_cache_growth_bytes},
          {"index_cache_bytes", disk.index_cache_bytes},
          {"direct", disk.direct}};
}

void print_line(std::ostream& out, const char* what, double value, double floor,
                const char* floor_name) {
  out << "  " << std::left << std::setw(16) << what << std::right << std::fixed
      << std::setprecision(2) << std::setw(8) << value << " GB/s   " << std::setw(6)
      << value / floor << " of " << floor_name << " (" << floor << " GB/s)\n";
}

void print_size(std::ostream& out, const CopyFigures& copies, const DiskFigures& disk) {
  out << disk.block_bytes / kib << " KiB:\n";
  print_line(out, "host to device", copies.host_to_device_GBps.median(),
             copies.to_device_floor_GBps.median(), "memcpy");
  print_line(out, "device to host", copies.device_to_host_GBps.median(),
             copies.to_host_floor_GBps.median(), "memcpy");
  print_line(out, "disk read", disk.read_GBps.median(), disk.bare_read_GBps.median(),
             "a bare ring");
  print_line(out, "disk write", disk.write_GBps.median(), disk.bare_write_GBps.median(),
             "a bare ring with an fdatasync every 16 blocks");
  print_line(out, "", disk.write_GBps.median(), disk.bare_write_one_sync_GBps.median(),
             "a bare ring with one fdatasync at the end");
  out << "  " << disk.write_amplification << " bytes written a byte of payload; "
      << (disk.direct ? "direct" : "BUFFERED") << ", the page cache of the data files grew by "
      << disk.page_cache_growth_bytes << " bytes\n";
}

}  // namespace

int run_tiers(const TiersOptions& options, std::ostream& out, std::ostream& err) {
  const test_support::TempDir temporary(options.directory.empty()
                                            ? std::filesystem::temp_directory_path()
                                            : std::filesystem::path(options.directory));
  print_environment(out, temporary.path());
  const std::size_t bytes = options.quick
                                ? std::min<std::size_t>(quick_bytes, options.megabytes * mib)
                                : options.megabytes * mib;
  const std::size_t repetitions =
      options.quick ? std::min<std::size_t>(options.repetitions, 5) : options.repetitions;
  out << "Blocks through " << storage::HostAccelerator::default_threads
      << " copying threads and the disk tier, everything verified; medians of " << repetitions
      << ", " << format_bytes(bytes) << " each. A write ends when it is durable.\n";
  Worst worst;
  nlohmann::ordered_json sizes = nlohmann::ordered_json::array();
  std::string ring;
  for (const std::size_t block_kib : options.block_kib) {
    const auto copies = measure_copies(block_kib * kib, bytes, repetitions);
    const auto disk =
        copies ? measure_disk(temporary.path(), block_kib * kib, bytes, repetitions, options.ring)
               : error(copies.error());
    std::error_code ignored;
    std::filesystem::remove_all(temporary.path() + "/disk", ignored);
    if (!disk) {
      err << "terrace-bench: " << disk.error().message() << std::endl;
      return 1;
    }
    print_size(out, *copies, *disk);
    worst.add(*copies, *disk);
    sizes.push_back(size_fields(*copies, *disk));
    ring = disk->ring;
  }
  const nlohmann::ordered_json line = {{"bench", "tiers"},
                                       {"host_to_device_ratio", worst.host_to_device},
                                       {"device_to_host_ratio", worst.device_to_host},
                                       {"disk_read_ratio", worst.read},
                                       {"disk_write_ratio", worst.write},
                                       {"disk_write_one_sync_ratio", worst.write_one_sync},
                                       {"disk_read_GBps", worst.read_GBps},
                                       {"disk_write_GBps", worst.write_GBps},
                                       {"write_amplification", worst.amplification},
                                       {"page_cache_growth_bytes", worst.page_cache_growth},
                                       {"ring", ring},
                                       {"threads", storage::HostAccelerator::default_threads},
                                       {"sizes", sizes},
                                       {"debug_build", is_debug_build()}};
  out << line.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
