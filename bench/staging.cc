#include "bench/staging.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "bench/chain.h"
#include "bench/environment.h"
#include "bench/samples.h"
#include "client/client.h"
#include "core/bytes.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"

namespace terrace::bench {

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::uint32_t staged_block_tokens = 32;
constexpr std::chrono::seconds staged_call_limit{60};

// The KV memory of an engine.
struct EngineMemory {
  std::vector<std::byte> bytes;
  std::vector<std::byte*> blocks;
  EngineMemory(std::size_t count, std::uint64_t block_bytes) : bytes(count * block_bytes) {
    for (std::size_t i = 0; i < count; ++i) blocks.push_back(bytes.data() + i * block_bytes);
  }
  std::vector<const std::byte*> sources() const { return {blocks.begin(), blocks.end()}; }
};

struct PathFigures {
  Samples put_GBps, get_GBps;
};

template <typename Work>
double measure_GBps(std::uint64_t bytes, Work work) {
  const auto begin = Steady::now();
  work();
  return static_cast<double>(bytes) /
         std::chrono::duration<double, std::nano>(Steady::now() - begin).count();
}

// Puts a prompt that is new and gets it back; whether it is what was put.
Status put_and_get(client::Space& space, std::uint64_t number, EngineMemory& from, EngineMemory& to,
                   PathFigures& figures) {
  const std::uint64_t bytes = from.bytes.size();
  const Chain chain(space.digest(), staged_block_tokens, number, from.blocks.size());
  // Bytes of its own, so that nothing old passes for what was put.
  for (std::byte* const block : from.blocks) std::memcpy(block, &number, sizeof number);
  std::ranges::fill(to.bytes, std::byte{0});
  Status status;
  figures.put_GBps.add(measure_GBps(bytes, [&] {
    const auto put = space.put(space.digest(), chain.tokens, from.sources(),
                               Steady::now() + staged_call_limit);
    if (!put)
      status = put.error();
    else if (std::ranges::any_of(*put, [](PutOutcome o) { return o != PutOutcome::stored; }))
      status = Status(StatusCode::internal, "not every block was stored");
  }));
  if (!status.ok()) return status;
  figures.get_GBps.add(measure_GBps(bytes, [&] {
    const auto got = space.get(chain.keys, to.blocks, {}, Steady::now() + staged_call_limit);
    if (!got)
      status = got.error();
    else if (got->size() != chain.keys.size())
      status = Status(StatusCode::internal, "not every block came back");
  }));
  if (status.ok() && from.bytes != to.bytes)
    status = Status(StatusCode::corruption, "what came back is not what was put");
  return status;
}

}  // namespace

int run_staging(const StagingBenchOptions& options, std::ostream& out, std::ostream& err) {
  print_environment(out);
  const auto fail = [&](const Status& status) {
    err << "terrace-bench: " << status.message() << std::endl;
    return 1;
  };
  const std::size_t blocks = options.quick ? std::min<std::size_t>(options.blocks, 32)
                                           : options.blocks;
  const std::uint64_t block_bytes = options.block_kib * kib;
  const std::uint64_t bytes = blocks * block_bytes;
  const test_support::TempDir temporary(options.directory.empty()
                                            ? std::filesystem::temp_directory_path()
                                            : std::filesystem::path(options.directory));
  // Two prompts fit: each pushes out the one before the last.
  const std::uint64_t arena = round_up(2 * bytes + 256 * mib, 64 * mib);
  test_support::DaemonProcess daemon(
      {test_support::program_directory() + "/terraced",
       temporary.path(),
       {"device.capacity=" + std::to_string(arena), "host.capacity=0", "disk.enabled=false"}});
  if (Status status = daemon.start(); !status.ok()) return fail(status);
  const auto connect = [&](client::PayloadPath path) {
    client::ClientOptions wanted;
    wanted.socket_path = daemon.socket_path();
    wanted.client_name = "terrace-bench";
    wanted.payload = path;
    return client::Client::start(std::move(wanted));
  };
  const auto staging = connect(client::PayloadPath::staging);
  const auto stream = connect(client::PayloadPath::stream);
  for (client::Client* const client : {staging.get(), stream.get()})
    if (Status status = client->wait_connected(Steady::now() + staged_call_limit); !status.ok())
      return fail(status);
  const SpaceDescriptor descriptor = small_space(staged_block_tokens, block_bytes);
  const auto staged_space = staging->open_space(descriptor);
  const auto streamed_space = stream->open_space(descriptor);

  EngineMemory from(blocks, block_bytes), to(blocks, block_bytes);
  for (std::size_t at = 0; at < from.bytes.size(); at += sizeof at)
    std::memcpy(from.bytes.data() + at, &at, sizeof at);
  Samples memcpy_GBps;
  PathFigures staged, streamed, warm_up;
  std::uint64_t number = 1;
  // Both regions and the arena are touched for the first time here.
  for (int i = 0; i < 3; ++i)
    if (Status status = put_and_get(*staged_space, number++, from, to, warm_up); !status.ok())
      return fail(status);
  if (Status status = put_and_get(*streamed_space, number++, from, to, warm_up); !status.ok())
    return fail(status);
  for (std::size_t i = 0; i < options.repetitions; ++i) {
    memcpy_GBps.add(measure_GBps(bytes, [&] {
      for (std::size_t block = 0; block < blocks; ++block)
        std::memcpy(to.blocks[block], from.blocks[block], block_bytes);
    }));
    if (Status status = put_and_get(*staged_space, number++, from, to, staged); !status.ok())
      return fail(status);
    if (Status status = put_and_get(*streamed_space, number++, from, to, streamed); !status.ok())
      return fail(status);
  }
  if (daemon.stop() != 0)
    return fail(Status(StatusCode::internal, "terraced did not stop in order:\n" + daemon.log()));

  const double floor = memcpy_GBps.median();
  const auto print = [&](const char* what, const Samples& samples) {
    out << "  " << std::left << std::setw(22) << what << std::right << std::setw(7)
        << samples.median() << " GB/s   " << samples.median() / floor << " of memcpy\n";
  };
  out << std::fixed << std::setprecision(2) << blocks << " blocks of " << options.block_kib
      << " KiB, memcpy on one thread " << floor << " GB/s:\n";
  print("put, shared memory", staged.put_GBps);
  print("get, shared memory", staged.get_GBps);
  print("put, messages", streamed.put_GBps);
  print("get, messages", streamed.get_GBps);
  const nlohmann::ordered_json line = {{"bench", "staging"},
                                       {"block_bytes", block_bytes},
                                       {"blocks", blocks},
                                       {"memcpy_GBps", floor},
                                       {"put_GBps", staged.put_GBps.median()},
                                       {"get_GBps", staged.get_GBps.median()},
                                       {"put_ratio", staged.put_GBps.median() / floor},
                                       {"get_ratio", staged.get_GBps.median() / floor},
                                       {"stream_put_GBps", streamed.put_GBps.median()},
                                       {"stream_get_GBps", streamed.get_GBps.median()},
                                       {"debug_build", is_debug_build()}};
  out << line.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
