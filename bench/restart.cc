#include "bench/restart.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>

#include "bench/environment.h"
#include "bench/restart_store.h"
#include "bench/samples.h"
#include "core/block_key.h"
#include "core/bytes.h"
#include "core/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace terrace::bench {

namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

constexpr std::size_t quick_blocks = 20'000;
constexpr std::size_t read_bytes = mib;
// Of what the data files take: the index, and room that is preallocated.
constexpr double space_factor = 1.2;
constexpr std::uint64_t space_reserve_bytes = 2 * gib;

// What a start reads from a disk that was not read before: the page cache is told to forget it.
void forget_cached(const fs::path& directory) {
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) continue;
    ::fdatasync(fd.get());
    ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

struct IndexRead {
  double seconds = 0;
  std::uint64_t bytes = 0;
};

IndexRead read_index(const fs::path& directory) {
  forget_cached(directory);
  std::vector<char> buffer(read_bytes);
  IndexRead result;
  const auto begin = Steady::now();
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    const UniqueFd fd(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    for (ssize_t got; fd && (got = ::read(fd.get(), buffer.data(), buffer.size())) > 0;)
      result.bytes += static_cast<std::uint64_t>(got);
  }
  result.seconds = std::chrono::duration<double>(Steady::now() - begin).count();
  return result;
}

struct Figures {
  Samples ready_s, ready_after_kill_s, rebuild_s, index_read_s, bytes_per_block;
  std::uint64_t index_bytes = 0;
};

Result<Figures> measure(const std::string& directory, std::size_t blocks, std::size_t repetitions) {
  const fs::path index = fs::path(directory) / "index";
  Figures figures;
  const auto fill = [&](std::function<void()>& stop) {
    return fill_store(directory, blocks, stop);
  };
  const auto open_again = [&](std::function<void()>& stop) {
    return open_store_again(directory, blocks, stop);
  };
  // The process that wrote everything is the first to be killed: what it left is replayed.
  if (const auto filled = in_child(fill, End::killed); !filled) return error(filled.error());
  for (std::size_t i = 0; i < repetitions; ++i) {
    forget_cached(index);
    const auto after_kill = in_child(open_again, End::in_order);
    if (!after_kill) return error(after_kill.error());
    figures.ready_after_kill_s.add(after_kill->ready_s);
    const IndexRead read = read_index(index);
    figures.index_read_s.add(read.seconds);
    figures.index_bytes = read.bytes;
    forget_cached(index);
    const auto after_stop = in_child(open_again, End::killed);
    if (!after_stop) return error(after_stop.error());
    figures.ready_s.add(after_stop->ready_s);
    figures.bytes_per_block.add(static_cast<double>(after_stop->grown_bytes) /
                                    static_cast<double>(blocks) -
                                static_cast<double>(restart_block_tokens * sizeof(Token)));
  }
  std::error_code code;
  fs::remove_all(index, code);
  if (code) return error(StatusCode::io_error, "could not remove the index: " + code.message());
  const auto rebuilt = in_child(open_again, End::in_order);
  if (!rebuilt) return error(rebuilt.error());
  figures.rebuild_s.add(rebuilt->ready_s);
  return figures;
}

}  // namespace

int run_restart(const RestartOptions& options, std::ostream& out, std::ostream& err) {
  const test_support::TempDir temporary(options.directory.empty() ? fs::temp_directory_path()
                                                                  : fs::path(options.directory));
  print_environment(out, temporary.path());
  out.flush();  // processes are forked from here on
  const auto fail = [&](const std::string& message) {
    err << "terrace-bench: " << message << std::endl;
    return 1;
  };
  const std::size_t blocks =
      options.quick ? std::min(quick_blocks, options.blocks) : options.blocks;
  const std::size_t repetitions =
      options.quick ? std::min<std::size_t>(options.repetitions, 1) : options.repetitions;
  const auto needed = static_cast<std::uint64_t>(space_factor * 2 * restart_block_bytes *
                                                 static_cast<double>(blocks)) +
                      space_reserve_bytes;
  std::error_code code;
  const fs::space_info space = fs::space(temporary.path(), code);
  if (code || space.available < needed)
    return fail(temporary.path() + " has " + format_bytes(space.available) + " free; " +
                std::to_string(blocks) + " blocks need " + format_bytes(needed) +
                " (--blocks, --directory)");

  const auto figures = measure(temporary.path() + "/disk", blocks, repetitions);
  if (!figures) return fail(figures.error().message());
  const double read_s = figures->index_read_s.median();
  out << std::fixed << std::setprecision(2) << blocks
      << " blocks on disk are known, from the start of a process that finds nothing in the page "
      << "cache; medians of " << repetitions << ":\n"
      << "  after a clean stop  " << figures->ready_s.median() << " s\n"
      << "  after kill -9       " << figures->ready_after_kill_s.median() << " s\n"
      << "  without its index   " << figures->rebuild_s.median() << " s (once)\n"
      << "  reading the index   " << read_s << " s (" << format_bytes(figures->index_bytes) << ")\n"
      << "Memory of the process: " << std::setprecision(1) << figures->bytes_per_block.median()
      << " bytes a block besides its token ids.\n";
  const nlohmann::ordered_json line = {
      {"bench", "restart"},
      {"blocks", blocks},
      {"ready_s", figures->ready_s.median()},
      {"ready_after_kill_s", figures->ready_after_kill_s.median()},
      {"rebuild_s", figures->rebuild_s.median()},
      {"bytes_per_block", figures->bytes_per_block.median()},
      {"index_read_s", read_s},
      {"index_bytes", figures->index_bytes},
      {"ready_max_s", figures->ready_s.quantile(1)},
      {"ready_after_kill_max_s", figures->ready_after_kill_s.quantile(1)},
      {"debug_build", is_debug_build()}};
  out << line.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
