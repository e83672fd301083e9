// terrace-bench: figures, each beside a floor measured in the same run.
#include <CLI/CLI.hpp>
#include <iostream>
#include <map>

#include "bench/attention.h"
#include "bench/catalog.h"
#include "bench/codec.h"
#include "bench/load.h"
#include "bench/redis.h"
#include "bench/replay.h"
#include "bench/restart.h"
#include "bench/rpc.h"
#include "bench/serve.h"
#include "bench/staging.h"
#include "bench/throughput.h"
#include "bench/tiers.h"
#include "bench/ttft.h"
#include "inference/worker/model_options.h"

namespace {

using namespace terrace;
using namespace terrace::bench;

CLI::Option* add_quick(CLI::App& command, bool& quick) {
  return command.add_flag("--quick", quick, "Fewer and smaller points, for a smoke test");
}

void add_throughput(CLI::App& app, const char* name, const char* what,
                    int (*run)(const ThroughputOptions&, std::ostream&, std::ostream&),
                    int& status) {
  auto options = std::make_shared<ThroughputOptions>();
  CLI::App& command = *app.add_subcommand(name, what);
  inference::add_model_options(command, options->model_path, options->model);
  command.add_option("--repetitions", options->repetitions, "How often each point is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_quick(command, options->quick);
  command.callback([options, run, &status] { status = run(*options, std::cout, std::cerr); });
}

void add_attention(CLI::App& app, int& status) {
  auto options = std::make_shared<AttentionOptions>();
  CLI::App& command = *app.add_subcommand(
      "attention", "Decoding over a prefix that sequences share, in two phases and in one");
  inference::add_compute_options(command, options->model);
  command.add_option("--sequences", options->sequences, "Numbers of sequences")
      ->check(CLI::Range(1, 512))
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--shared-tokens", options->shared_tokens, "That they share, multiples of 32")
      ->check(CLI::Range(32, 131'072))
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--own-tokens", options->own_tokens, "Of each sequence, behind those")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command.add_option("--repetitions", options->repetitions, "How often each point is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  add_quick(command, options->quick);
  command.callback([options, &status] {
    if (options->quick) {
      options->sequences = {8, 32};
      options->shared_tokens = {256, 2048};
    }
    for (std::uint32_t& tokens : options->shared_tokens) tokens -= tokens % chunk_tokens;
    status = run_attention(*options, std::cout, std::cerr);
  });
}

void add_rpc(CLI::App& app, int& status) {
  auto options = std::make_shared<RpcOptions>();
  CLI::App& command = *app.add_subcommand("rpc", "A match of 512 blocks beside a bare ping");
  command.add_option("--catalog-blocks", options->catalog_blocks, "Blocks that the daemon knows")
      ->capture_default_str();
  command.add_option("--match-blocks", options->match_blocks, "Blocks of the prompt")
      ->check(CLI::Range(1, 16384))
      ->capture_default_str();
  command.add_option("--rounds", options->rounds, "How many of each are timed")
      ->check(CLI::Range(5, 1'000'000))
      ->capture_default_str();
  command.add_flag("--million", options->million,
                   "Also with 1,000,000 blocks (takes 5 GiB of memory)");
  command.add_option("--directory", options->directory, "Where the daemon's files go");
  add_quick(command, options->quick);
  command.callback([options, &status] {
    if (options->quick)
      options->catalog_blocks = std::min<std::size_t>(options->catalog_blocks, 10'000);
    status = run_rpc(*options, std::cout, std::cerr);
  });
}

void add_staging(CLI::App& app, int& status) {
  auto options = std::make_shared<StagingBenchOptions>();
  CLI::App& command = *app.add_subcommand(
      "staging", "Blocks of an engine with memory of its own to a daemon and back, verified");
  command.add_option("--block-kib", options->block_kib, "Size of a block, a multiple of 4 KiB")
      ->check(CLI::Range(4, 16'384))
      ->capture_default_str();
  command.add_option("--blocks", options->blocks, "Blocks of a prompt")
      ->check(CLI::Range(1, 16384))
      ->capture_default_str();
  command.add_option("--repetitions", options->repetitions, "How often each is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--directory", options->directory, "Where the daemon's files go");
  add_quick(command, options->quick);
  command.callback([options, &status] { status = run_staging(*options, std::cout, std::cerr); });
}

void add_redis(CLI::App& app, int& status) {
  auto options = std::make_shared<RedisBenchOptions>();
  CLI::App& command =
      *app.add_subcommand("redis", "Blocks to a Redis and back, verified, beside bare sockets");
  command.add_option("--block-kib", options->block_kib, "Sizes of blocks")
      ->check(CLI::Range(4, 65'536))
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--megabytes", options->megabytes, "MiB that each point moves")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--repetitions", options->repetitions, "How often each point is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--address", options->address,
                     "Of a server, with its port; without it one is started");
  command
      .add_option("--connections", options->connections,
                  "Of the tier, for values; without it the default")
      ->check(CLI::Range(1, 32));
  add_quick(command, options->quick);
  command.callback([options, &status] { status = run_redis(*options, std::cout, std::cerr); });
}

void add_serve(CLI::App& app, int& status) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App& command = *app.add_subcommand(
      "serve", "Requests with one prefix, as they come, with the cache and without");
  inference::add_model_options(command, options->model_path, options->model);
  command.add_option("--shared-tokens", options->shared_tokens, "That all prompts begin with")
      ->capture_default_str();
  command.add_option("--own-tokens", options->own_tokens, "Of each prompt, behind those")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--output-tokens", options->output_tokens, "Of each answer")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command.add_option("--load", options->loads, "Parts of the capacity without a cache")
      ->check(CLI::Range(0.01, 100.0))
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--seconds", options->seconds, "That requests of one load come for")
      ->check(CLI::Range(0.1, 36'000.0))
      ->capture_default_str();
  command.add_option("--burst", options->burst, "Requests that come at once")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--seed", options->seed, "Of prompts and arrivals")->capture_default_str();
  command.add_option("--directory", options->directory, "Where the daemon's data goes");
  add_quick(command, options->quick);
  command.callback([options, &status] {
    if (options->quick) {
      options->loads = {1.07};
      options->seconds = 2;
      options->burst = 8;
      options->capacity_requests = 8;
    }
    status = run_serve_bench(*options, std::cout, std::cerr);
  });
}

void add_replay(CLI::App& app, int& status) {
  auto options = std::make_shared<ReplayOptions>();
  CLI::App& command =
      *app.add_subcommand("replay", "What each policy of eviction finds of a trace in the cache");
  command.add_option("--trace", options->trace, "One JSON object a line: hash_ids, input_length")
      ->check(CLI::ExistingFile);
  command.add_option("--synthetic", options->synthetic,
                     "A made-up trace instead, or \"all\" of them");
  command.add_option("--seed", options->seed, "Of the made-up trace")->capture_default_str();
  command.add_option("--requests", options->requests, "Its length")
      ->check(CLI::Range(100, 1'000'000))
      ->capture_default_str();
  command.add_option("--policy", options->policies, "Any of lru, reuse_index, belady")
      ->check(CLI::IsMember({"lru", "reuse_index", "belady"}))
      ->capture_default_str();
  command.add_option("--capacity", options->capacities, "Fractions of the distinct blocks")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command.add_flag("--full-blocks-only", options->full_blocks_only,
                   "Leave out blocks that are only partly filled");
  add_quick(command, options->quick);
  command.callback([options, &status] {
    if (options->quick) options->capacities = {0.01, 0.1};
    status = run_replay(*options, std::cout, std::cerr);
  });
}

void add_ttft(CLI::App& app, int& status) {
  auto options = std::make_shared<TtftOptions>();
  CLI::App& command =
      *app.add_subcommand("ttft", "The first token of a prompt that was computed before, per tier");
  inference::add_model_options(command, options->model_path, options->model);
  inference::add_backend_option(command, options->model);
  command.add_option("--tokens", options->tokens, "Length of the prompt")->capture_default_str();
  command.add_option("--new", options->fresh, "How many of its tokens are new each time")
      ->capture_default_str();
  command.add_option("--repetitions", options->repetitions, "How often each tier is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--directory", options->directory, "Where the daemon's data goes");
  add_quick(command, options->quick);
  command.callback([options, &status] {
    if (options->quick) options->repetitions = std::min<std::size_t>(options->repetitions, 2);
    status = run_ttft(*options, std::cout, std::cerr);
  });
}

void add_codec(CLI::App& app, int& status) {
  auto options = std::make_shared<CodecOptions>();
  CLI::App& command =
      *app.add_subcommand("codec", "What each codec makes of the KV blocks of a model");
  inference::add_model_options(command, options->model_path, options->model);
  command.add_option("--text-file", options->text_file, "What the model reads");
  command.add_option("--blocks", options->blocks, "How many blocks of it at most")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--repetitions", options->repetitions, "How often each codec is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--zstd-level", options->zstd_level, "Of zstd and planes")
      ->check(CLI::Range(1, 19))
      ->capture_default_str();
  command.add_option("--directory", options->directory, "On the disk to compare with");
  add_quick(command, options->quick);
  command.callback([options, &status] { status = run_codec(*options, std::cout, std::cerr); });
}

void add_tiers(CLI::App& app, int& status) {
  auto options = std::make_shared<TiersOptions>();
  CLI::App& command =
      *app.add_subcommand("tiers", "Blocks between host, device and disk, verified, beside floors");
  command.add_option("--block-kib", options->block_kib, "Sizes of blocks, multiples of 4 KiB")
      ->check(CLI::Range(4, 65'536))
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--megabytes", options->megabytes, "MiB that each point moves")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("--repetitions", options->repetitions, "How often each point is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--directory", options->directory, "Where the disk tier goes");
  command.add_option("--ring", options->ring, "auto, io_uring or threads")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, storage::RingKind>{{"auto", storage::RingKind::automatic},
                                                   {"io_uring", storage::RingKind::io_uring},
                                                   {"threads", storage::RingKind::threads}}));
  add_quick(command, options->quick);
  command.callback([options, &status] { status = run_tiers(*options, std::cout, std::cerr); });
}

void add_catalog(CLI::App& app, int& status) {
  auto options = std::make_shared<CatalogOptions>();
  CLI::App& command = *app.add_subcommand(
      "catalog", "A match in the library, an operation, and memory, as known blocks get more");
  command.add_option("--blocks", options->blocks, "Numbers of blocks, ascending")
      ->check(CLI::Range(1, 50'000'000))
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--match-blocks", options->match_blocks, "Blocks of a match")
      ->check(CLI::Range(16, 16'384))
      ->capture_default_str();
  command.add_option("--rounds", options->rounds, "How many matches are timed")
      ->check(CLI::Range(5, 1'000'000))
      ->capture_default_str();
  add_quick(command, options->quick);
  command.callback([options, &status] {
    if (options->quick) {
      std::erase_if(options->blocks, [](std::size_t blocks) { return blocks > 100'000; });
      options->rounds = std::min<std::size_t>(options->rounds, 51);
    }
    status = run_catalog(*options, std::cout, std::cerr);
  });
}

void add_restart(CLI::App& app, int& status) {
  auto options = std::make_shared<RestartOptions>();
  CLI::App& command = *app.add_subcommand(
      "restart", "How soon blocks on disk are known again: stopped, killed, index lost");
  command.add_option("--blocks", options->blocks, "Blocks on disk, 8 KiB each")
      ->check(CLI::Range(1000, 100'000'000))
      ->capture_default_str();
  command.add_option("--repetitions", options->repetitions, "How often each is measured")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_option("--directory", options->directory, "Where the disk tier goes");
  add_quick(command, options->quick);
  command.callback([options, &status] { status = run_restart(*options, std::cout, std::cerr); });
}

void add_load(CLI::App& app, int& status) {
  auto options = std::make_shared<LoadOptions>();
  CLI::App& command = *app.add_subcommand(
      "load", "Many clients at once beside bare pings, and beside one that does not read");
  command.add_option("--clients", options->clients, "Connections, one call at a time each")
      ->check(CLI::Range(1, 500))
      ->capture_default_str();
  command.add_option("--duration", options->duration_s, "Seconds of all that is measured")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  command.add_option("--directory", options->directory, "Where the daemon's files go");
  command.add_flag("--disk", options->disk, "With a disk tier that what is sealed is written to");
  add_quick(command, options->quick);
  command.callback([options, &status] {
    if (options->quick) options->duration_s = std::min<std::size_t>(options->duration_s, 2);
    status = run_load(*options, std::cout, std::cerr);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Measures Terrace, each figure beside a floor of the same run. The last line is one JSON "
      "object.",
      "terrace-bench");
  app.set_version_flag("--version", TERRACE_VERSION);
  app.require_subcommand(1);
  int status = 0;
  add_throughput(app, "prefill", "Tokens a second of prompts", run_prefill, status);
  add_throughput(app, "decode", "Tokens a second of answers", run_decode, status);
  add_attention(app, status);
  add_rpc(app, status);
  add_staging(app, status);
  add_redis(app, status);
  add_replay(app, status);
  add_serve(app, status);
  add_ttft(app, status);
  add_tiers(app, status);
  add_codec(app, status);
  add_catalog(app, status);
  add_restart(app, status);
  add_load(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    if (problem.get_exit_code() == 0) return app.exit(problem);
    std::cerr << "terrace-bench: " << problem.what()
              << " ('terrace-bench --help' lists what there is)" << std::endl;
    return 2;
  } catch (const std::exception& failure) {
    std::cerr << "terrace-bench: " << failure.what() << std::endl;
    return 1;
  }
  return status;
}
