#include "cache_daemon/verify_command.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/bytes.h"
#include "storage/disk/store_check.h"

namespace terrace::daemon {
namespace {

using nlohmann::ordered_json;

constexpr std::uint64_t records_between_progress = 64;

struct VerifiedStore {
  std::string directory;
  storage::StoreCheck check;
  bool repaired = false;
  std::uint64_t removed = 0;
};

bool may_repair(const VerifyCommand& command, const std::string& directory) {
  if (!command.repair) return false;
  if (command.yes) return true;
  if (::isatty(STDIN_FILENO) == 0) {
    std::cerr << "terraced: nothing removed: say --yes to go on without a question\n";
    return false;
  }
  std::cerr << "Erase what does not verify in " << directory << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

ordered_json json_of(const VerifiedStore& store) {
  ordered_json bad = ordered_json::array();
  for (const storage::BadRecord& record : store.check.bad)
    bad.push_back({{"key", record.key.hex()},
                   {"space", record.space.hex()},
                   {"place", record.place},
                   {"reason", record.reason}});
  return {{"directory", store.directory},
          {"spaces", store.check.spaces},
          {"records", store.check.records},
          {"bytes", store.check.bytes},
          {"index_problem", store.check.index_problem},
          {"bad", std::move(bad)},
          {"removed", store.removed}};
}

void print_store(const VerifiedStore& store) {
  const storage::StoreCheck& check = store.check;
  if (!check.index_problem.empty())
    std::cout << store.directory << "/index  " << check.index_problem
              << (store.repaired ? "  (made anew)" : "") << "\n";
  for (const storage::BadRecord& record : check.bad)
    std::cout << record.key.hex() << "  disk  " << record.place << "  " << record.reason << "\n";
  std::cout << store.directory << ": read " << check.records << " records, "
            << format_bytes(check.bytes) << "; " << check.bad.size() << " do not verify";
  if (store.repaired) std::cout << ", " << store.removed << " of them removed";
  std::cout << "\n";
}

}  // namespace

int verify_stores(const config::DaemonConfig& config, const VerifyCommand& command) {
  std::vector<std::string> directories = config.disk.data_dirs;
  if (directories.empty()) directories.push_back(config.data_dir);
  const auto files = storage::make_system_files();
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  int outcome = exit_sound;
  ordered_json stores = ordered_json::array();
  for (const std::string& directory : directories) {
    auto check =
        storage::check_store(directory, *files, [&](std::uint64_t done, std::uint64_t all) {
          if (on_terminal && done % records_between_progress == 0)
            std::cerr << "\r" << done << "/" << all << " records  " << std::flush;
          return true;
        });
    if (on_terminal) std::cerr << "\n";
    if (!check) {
      std::cerr << "terraced: " << check.error().message() << "\n";
      outcome = exit_problem;
      continue;
    }
    VerifiedStore store{directory, std::move(*check)};
    if (!store.check.sound()) {
      outcome = exit_problem;
      if (may_repair(command, directory)) {
        storage::DiskOptions options;
        options.directory = directory;
        // Nothing is to become smaller here, whatever the daemon's configuration says.
        options.capacity_bytes =
            std::max(config.disk.capacity_bytes, 2 * files->allocated_bytes(directory) + gib);
        const auto removed = storage::repair_store(options, store.check);
        if (!removed) {
          std::cerr << "terraced: " << removed.error().message() << "\n";
        } else {
          store.repaired = true;
          store.removed = *removed;
        }
      }
    }
    if (command.json)
      stores.push_back(json_of(store));
    else
      print_store(store);
  }
  if (command.json)
    std::cout << ordered_json{{"stores", std::move(stores)}}.dump(
                     -1, ' ', false, ordered_json::error_handler_t::replace)
              << "\n";
  return std::cout.flush() ? outcome : exit_problem;
}

}  // namespace terrace::daemon
