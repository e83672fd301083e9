#include "bench/rpc.h"

#include <chrono>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

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

constexpr std::uint32_t block_tokens = 32;
constexpr std::uint64_t block_bytes = 64;
constexpr std::chrono::seconds call_limit{10};
// A slot is at least a page, however small the block.
constexpr std::size_t slot_bytes = 4096;

Status seal_chain(client::Space& space, const Chain& chain) {
  const client::LeaseId lease = space.new_lease();
  const auto slots = space.reserve(lease, chain.keys, 0, Steady::now() + call_limit);
  if (!slots) return slots.error();
  if (slots->size() != chain.keys.size()) return Status(StatusCode::no_space, "the arena is full");
  std::vector<client::SealBlock> blocks;
  for (std::size_t i = 0; i < slots->size(); ++i)
    blocks.push_back({(*slots)[i], chain.parent_of(space.digest(), i), chain.tokens_of(i)});
  space.seal(lease, std::move(blocks));
  space.release(lease);
  return space.flush(Steady::now() + call_limit);
}

struct Figures {
  Samples match_us, ping_us;
  double ratio() const { return match_us.median() / ping_us.median(); }
};

// A daemon whose catalog holds `catalog_blocks` blocks; every block of the prompt is among them.
Result<Figures> measure(const RpcOptions& options, std::size_t catalog_blocks,
                        const std::string& directory) {
  const std::uint64_t arena = round_up(catalog_blocks * slot_bytes * 5 / 4, 64 * mib);
  test_support::DaemonProcess daemon(
      {test_support::program_directory() + "/terraced",
       directory,
       {"device.capacity=" + std::to_string(arena), "host.capacity=0", "disk.enabled=false"}});
  if (Status status = daemon.start(); !status.ok()) return error(status);
  const auto client =
      client::Client::start({.socket_path = daemon.socket_path(), .client_name = "terrace-bench"});
  const auto space = client->open_space(small_space(block_tokens, block_bytes));
  if (Status status = client->wait_connected(Steady::now() + call_limit); !status.ok())
    return error(status);

  std::uint64_t chains = 0;
  const Chain asked(space->digest(), block_tokens, chains++, options.match_blocks);
  if (Status status = seal_chain(*space, asked); !status.ok()) return error(status);
  for (std::size_t blocks = options.match_blocks; blocks < catalog_blocks;
       blocks += options.match_blocks)
    if (Status status = seal_chain(
            *space, Chain(space->digest(), block_tokens, chains++, options.match_blocks));
        !status.ok())
      return error(status);

  // A match sends keys and tokens and receives a byte a block and a few numbers.
  const std::size_t request_bytes =
      asked.keys.size() * sizeof(BlockKey) + asked.tokens.size() * sizeof(Token);
  const std::size_t reply_bytes = asked.keys.size() + 32;
  Figures figures;
  const auto timed = [](Samples& samples, auto&& call) {
    const auto begin = Steady::now();
    const Status status = call(begin + call_limit);
    samples.add(std::chrono::duration<double, std::micro>(Steady::now() - begin).count());
    return status;
  };
  for (std::size_t round = 0; round < options.rounds; ++round) {
    Status status = timed(figures.ping_us, [&](client::Deadline deadline) {
      return client->ping(request_bytes, reply_bytes, deadline);
    });
    if (!status.ok()) return error(status);
    status = timed(figures.match_us, [&](client::Deadline deadline) {
      const auto match = space->match(asked.keys, asked.tokens, deadline);
      if (!match) return match.error();
      return match->matched_blocks == asked.keys.size()
                 ? Status()
                 : Status(StatusCode::internal, "not every block matched");
    });
    if (!status.ok()) return error(status);
  }
  if (daemon.stop() != 0)
    return error(StatusCode::internal, "terraced did not stop in order:\n" + daemon.log());
  return figures;
}

}  // namespace

int run_rpc(const RpcOptions& options, std::ostream& out, std::ostream& err) {
  print_environment(out);
  const test_support::TempDir temporary(options.directory.empty()
                                            ? std::filesystem::temp_directory_path()
                                            : std::filesystem::path(options.directory));
  const auto fail = [&](const Status& status) {
    err << "terrace-bench: " << status.message() << std::endl;
    return 1;
  };
  const auto figures = measure(options, options.catalog_blocks, temporary.path());
  if (!figures) return fail(figures.error());
  std::optional<double> ratio_million;
  if (options.million) {
    const auto more = measure(options, 1'000'000, temporary.path());
    if (!more) return fail(more.error());
    ratio_million = more->ratio();
  }
  out << std::fixed << std::setprecision(1) << "match of " << options.match_blocks
      << " blocks, catalog of " << options.catalog_blocks << ": p50 " << figures->match_us.median()
      << " us, p99 " << figures->match_us.quantile(0.99) << " us\n"
      << "ping of the same size: p50 " << figures->ping_us.median() << " us, p99 "
      << figures->ping_us.quantile(0.99) << " us; ratio " << std::setprecision(2)
      << figures->ratio() << "\n";
  nlohmann::ordered_json line = {{"bench", "rpc"},
                                 {"match_p50_us", figures->match_us.median()},
                                 {"match_p99_us", figures->match_us.quantile(0.99)},
                                 {"ping_p50_us", figures->ping_us.median()},
                                 {"ping_p99_us", figures->ping_us.quantile(0.99)},
                                 {"ratio_p50", figures->ratio()},
                                 {"catalog_blocks", options.catalog_blocks},
                                 {"debug_build", is_debug_build()}};
  if (ratio_million) line["ratio_p50_million"] = *ratio_million;
  out << line.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
