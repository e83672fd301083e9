#include "bench/ttft.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <random>
#include <thread>

#include "bench/bare_file.h"
#include "bench/environment.h"
#include "bench/samples.h"
#include "client/operator.h"
#include "core/bytes.h"
#include "inference/worker/engine.h"
#include "tests/support/daemon_process.h"
#include "tests/support/redis_server.h"
#include "tests/support/temp_dir.h"

namespace terrace::bench {

namespace {

using namespace terrace::inference;
using Steady = std::chrono::steady_clock;
using test_support::DaemonProcess;

constexpr std::chrono::seconds connect_limit{30};

struct FirstToken {
  double ms = 0;
  PrefixHit hit;
  std::vector<float> logits;
};

// Prompts that share all tokens but the last few.
class Prompts {
 public:
  Prompts(std::size_t tokens, std::size_t fresh, std::uint32_t vocabulary)
      : random_(20240611), prefix_(tokens - fresh), fresh_(fresh), vocabulary_(vocabulary) {
    for (Token& token : prefix_) token = draw();
  }
  const std::vector<Token>& prefix() const { return prefix_; }
  std::vector<Token> next() {
    std::vector<Token> prompt = prefix_;
    for (std::size_t i = 0; i < fresh_; ++i) prompt.push_back(draw());
    return prompt;
  }

 private:
  Token draw() { return static_cast<Token>(random_() % vocabulary_); }
  std::mt19937 random_;
  std::vector<Token> prefix_;
  std::size_t fresh_;
  std::uint32_t vocabulary_;
};

// The prefix computed once into memory of the process: what no cache can beat.
class Resident {
 public:
  Resident(Engine& engine, std::span<const Token> prefix, std::size_t prompt_tokens)
      : engine_(engine),
        kv_(engine.model().kv_geometry(), nullptr, engine.sequence_cache_options()) {
    status_ = kv_.grow_to(prompt_tokens);
    if (!status_.ok()) return;
    std::vector<float> logits(engine.model().config().vocabulary);
    const SequenceStep step{prefix, 0, kv_.blocks()};
    status_ = engine.model().forward({&step, 1}, logits);
  }

  Result<FirstToken> first_token(std::span<const Token> prompt, std::size_t cached_tokens) {
    if (!status_.ok()) return error(status_);
    FirstToken result;
    result.logits.resize(engine_.model().config().vocabulary);
    const auto begin = Steady::now();
    const SequenceStep step{prompt.subspan(cached_tokens),
                            static_cast<std::uint32_t>(cached_tokens), kv_.blocks()};
    if (Status status = engine_.model().forward({&step, 1}, result.logits); !status.ok())
      return error(status);
    Sampler({}).sample(result.logits);
    result.ms = std::chrono::duration<double, std::milli>(Steady::now() - begin).count();
    return result;
  }

 private:
  Engine& engine_;
  SequenceKv kv_;
  Status status_;
};

// The whole way of a request, from the prompt's ids to its first token. Without `space` it is cold.
Result<FirstToken> first_token(Engine& engine, client::Space* space,
                               std::span<const Token> prompt) {
  FirstToken result;
  result.logits.resize(engine.model().config().vocabulary);
  SequenceCacheOptions cache;
  cache.memory = engine.sequence_cache_options().memory;  // the backend's
  Status failure;
  cache.budget = engine.client()->request_budget();
  cache.on_failure = [&](const Status& why) { failure = why; };
  const auto begin = Steady::now();
  SequenceKv kv(engine.model().kv_geometry(), space, cache);
  result.hit = kv.start(prompt);
  if (Status status = kv.grow_to(prompt.size()); !status.ok()) return error(std::move(status));
  const auto fresh = prompt.subspan(result.hit.cached_tokens);
  const SequenceStep step{fresh, static_cast<std::uint32_t>(result.hit.cached_tokens), kv.blocks()};
  if (Status status = engine.model().forward({&step, 1}, result.logits); !status.ok())
    return error(status);
  Sampler({}).sample(result.logits);
  result.ms = std::chrono::duration<double, std::milli>(Steady::now() - begin).count();
  kv.computed(fresh);
  if (!failure.ok()) return error(failure);
  return result;
}

bool same_bits(const std::vector<float>& one, const std::vector<float>& other) {
  return one.size() == other.size() &&
         std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
}

// Everything measured, filled step by step.
struct Figures {
  std::size_t cached_tokens = 0;
  Samples cold, resident, device, host, disk, resident_beside_disk, bare_read;
  Samples redis, resident_beside_redis;  // none where there is no server to be started
  bool logits_equal = true;
  std::size_t blocks = 0, block_bytes = 0;
};

class TtftBenchmark {
 public:
  TtftBenchmark(const TtftOptions& options, std::string directory, std::ostream& out)
      : options_(options), directory_(std::move(directory)), out_(out) {}

  Status run() {
    DaemonProcess daemon(daemon_options({"device.capacity=1GiB", "host.capacity=0"}));
    if (Status status = daemon.start(); !status.ok()) return status;
    EngineOptions engine_options;
    engine_options.model_path = options_.model_path;
    engine_options.model = options_.model;
    engine_options.socket_path = daemon.socket_path();
    auto engine = Engine::load(engine_options);
    if (!engine) return engine.error();
    engine_ = std::move(*engine);
    const LlamaConfig& config = engine_->model().config();
    if (options_.tokens > config.context_length || options_.fresh == 0 ||
        options_.fresh >= options_.tokens)
      return Status(StatusCode::invalid_argument,
                    "--tokens must be at most the model's context of " +
                        std::to_string(config.context_length) +
                        " and more than --new, which must be at least 1");
    prompts_.emplace(options_.tokens, options_.fresh, config.vocabulary);
    resident_.emplace(*engine_, prompts_->prefix(), options_.tokens);
    out_ << "ISA: " << to_string(engine_->model().isa()) << ", " << engine_->model().threads()
         << " threads, " << engine_->model().numerics_id() << "\n"
         << std::flush;

    if (Status status = reconnect(); !status.ok()) return status;
    if (Status status = measure_cold(); !status.ok()) return status;
    if (Status status = measure_device(); !status.ok()) return status;
    if (Status status = measure_disk(daemon); !status.ok()) return status;
    if (Status status = measure_host(daemon); !status.ok()) return status;
    if (engine_->model().backend() != "cpu") {
      // Only what lies in memory of the machine is given to it on its second use.
      out_ << "on a GPU nothing is measured of Redis\n";
      return {};
    }
    if (!test_support::RedisServer::installed()) {
      out_ << "no redis-server on this machine: nothing is measured of it\n";
      return {};
    }
    return measure_redis();
  }

  const Figures& figures() const { return figures_; }
  const std::string& backend() const { return engine_->model().backend(); }

 private:
  test_support::DaemonOptions daemon_options(std::vector<std::string> settings) const {
    const BackendChoice& backend = options_.model.backend;
    if (backend.kind == BackendChoice::Kind::cuda) {
      settings.push_back("device.accelerator=cuda:" + std::to_string(backend.ordinal));
      // What goes to and comes from the disk passes through a host tier there.
      std::ranges::replace(settings, std::string("host.capacity=0"),
                           std::string("host.capacity=256MiB"));
    }
    return {test_support::program_directory() + "/terraced", directory_, std::move(settings)};
  }

  Status reconnect() { return engine_->client()->wait_connected(Steady::now() + connect_limit); }

  Status measure_cold() {
    const std::size_t count = options_.quick ? 1 : options_.repetitions;
    for (std::size_t i = 0; i < count; ++i) {
      const auto prompt = prompts_->next();
      const auto cold = first_token(*engine_, nullptr, prompt);
      if (!cold) return cold.error();
      const auto resident = resident_->first_token(prompt, prompts_->prefix().size());
      if (!resident) return resident.error();
      figures_.cold.add(cold->ms);
      figures_.logits_equal &= same_bits(cold->logits, resident->logits);
    }
    return {};
  }

  Status measure_device() {
    // The first one computes the prefix and seals it; it is no hit.
    const auto seed = first_token(*engine_, engine_->space(), prompts_->next());
    if (!seed) return seed.error();
    engine_->flush_cache(std::chrono::seconds(10));
    for (std::size_t i = 0; i < options_.repetitions; ++i)
      if (Status status = measure_hit(Tier::device, figures_.device, figures_.resident);
          !status.ok())
        return status;
    return {};
  }

  Status measure_disk(DaemonProcess& daemon) {
    const KvGeometry geometry = engine_->model().kv_geometry();
    figures_.block_bytes = geometry.block_bytes();
    figures_.blocks = figures_.cached_tokens / geometry.block_tokens;
    auto bare = BareFile::create(directory_, round_up(figures_.block_bytes, 4096), figures_.blocks);
    if (!bare) return bare.error();
    for (std::size_t i = 0; i < options_.repetitions; ++i) {
      if (daemon.stop() != 0)
        return Status(StatusCode::internal, "terraced did not stop in order:\n" + daemon.log());
      if (Status status = daemon.start(); !status.ok()) return status;
      if (Status status = reconnect(); !status.ok()) return status;
      if (Status status = measure_hit(Tier::disk, figures_.disk, figures_.resident_beside_disk);
          !status.ok())
        return status;
      const auto read = bare->read_all_ms();
      if (!read) return read.error();
      figures_.bare_read.add(*read);
    }
    return {};
  }

  // With a device tier that holds the prompt and little more: reserving all of it pushes the prefix
  // down to the host.
  Status measure_host(DaemonProcess& other) {
    if (other.stop() != 0)
      return Status(StatusCode::internal, "terraced did not stop in order:\n" + other.log());
    constexpr std::uint64_t gpu_granule_bytes = 2 * mib;  // that a GPU gives memory in
    const std::uint64_t slab =
        std::max(std::bit_ceil(16 * std::uint64_t{figures_.block_bytes}),
                 engine_->model().backend() == "cpu" ? 0 : gpu_granule_bytes);
    const std::uint64_t device = round_up(figures_.block_bytes * (figures_.blocks + 16), slab);
    DaemonProcess daemon(daemon_options({"arena.slab=" + std::to_string(slab),
                                         "device.capacity=" + std::to_string(device),
                                         "host.capacity=" + std::to_string(2 * device)}));
    if (Status status = daemon.start(); !status.ok()) return status;
    if (Status status = reconnect(); !status.ok()) return status;
    Samples ignored;
    if (Status status = measure_hit(Tier::disk, ignored, ignored); !status.ok()) return status;
    for (std::size_t i = 0; i < options_.repetitions; ++i) {
      if (Status status = push_to_host(); !status.ok()) return status;
      if (Status status = measure_hit(Tier::host, figures_.host, ignored); !status.ok())
        return status;
    }
    daemon.stop();
    return {};
  }

  // One daemon gives the prefix to a server; another one, which has nothing of its own each time,
  // finds it there.
  Status measure_redis() {
    const test_support::RedisServer server;
    const std::string endpoint =
        "redis.endpoints=\"127.0.0.1:" + std::to_string(server.port()) + "\"";
    {
      DaemonProcess giver(daemon_options({"device.capacity=1GiB", "host.capacity=0", endpoint}));
      if (Status status = start_with_redis(giver); !status.ok()) return status;
      Samples ignored;
      if (Status status = measure_hit(Tier::disk, ignored, ignored); !status.ok()) return status;
      const auto wanted = static_cast<std::int64_t>(figures_.blocks);
      if (!test_support::wait_until([&] { return server.command({"DBSIZE"}).integer() >= wanted; },
                                    connect_limit))
        return Status(StatusCode::internal, "the prefix did not reach Redis:\n" + giver.log());
      giver.stop();
    }
    DaemonProcess finder(daemon_options(
        {"device.capacity=1GiB", "host.capacity=0", "disk.enabled=false", endpoint}));
    for (std::size_t i = 0; i < options_.repetitions; ++i) {
      if (Status status = start_with_redis(finder); !status.ok()) return status;
      if (Status status = measure_hit(Tier::redis, figures_.redis, figures_.resident_beside_redis);
          !status.ok())
        return status;
      finder.stop();
    }
    return {};
  }

  Status start_with_redis(DaemonProcess& daemon) {
    if (Status status = daemon.start(); !status.ok()) return status;
    if (Status status = reconnect(); !status.ok()) return status;
    const bool connected = test_support::wait_until(
        [&] {
          const auto text =
              client::fetch_stats_json(daemon.socket_path(), Steady::now() + connect_limit);
          const auto stats = nlohmann::json::parse(text.value_or(""), nullptr, false);
          return stats.is_object() && stats.at("redis").value("connections", 0) > 0;
        },
        connect_limit);
    if (!connected)
      return Status(StatusCode::internal, "terraced did not find Redis:\n" + daemon.log());
    return {};
  }

  // Takes slots of the device tier a few at a time, as new prompts would, so that demotion keeps
  // up, until every block of the prefix lies in the host tier and no longer above it.
  Status push_to_host() {
    const std::size_t slots_a_round = std::max<std::size_t>(1, figures_.blocks / 24);
    constexpr std::chrono::milliseconds round_time{50};
    client::Space& space = *engine_->space();
    const auto keys =
        derive_block_keys(space.digest(), prompts_->prefix(), space.descriptor().block_tokens);
    const auto limit = Steady::now() + std::chrono::seconds(30);
    const client::LeaseId lease = space.new_lease();
    Status status(StatusCode::deadline_exceeded, "the prefix did not reach the host tier");
    while (Steady::now() < limit) {
      const auto match = space.match(keys, {}, limit);
      if (!match) {
        status = match.error();
        break;
      }
      if (std::all_of(match->blocks.begin(),
                      match->blocks.begin() + static_cast<std::ptrdiff_t>(figures_.blocks),
                      [](BlockState state) { return state == BlockState::host; })) {
        status = Status();
        break;
      }
      if (const auto slots = space.reserve(lease, {}, slots_a_round, limit); !slots) {
        status = slots.error();
        break;
      }
      std::this_thread::sleep_for(round_time);
    }
    space.release(lease);
    return status;
  }

  // One hit and, right after it, the same tokens with the prefix already in the process.
  Status measure_hit(Tier tier, Samples& hits, Samples& residents) {
    const auto prompt = prompts_->next();
    const auto hit = first_token(*engine_, engine_->space(), prompt);
    if (!hit) return hit.error().with_context(std::string("a hit from ") + to_string(tier));
    const std::size_t cached = hit->hit.tokens_by_tier[static_cast<std::size_t>(tier)];
    // The first tokens of one more block may come from where a prompt before this one left it.
    if (cached == 0 ||
        hit->hit.cached_tokens - cached >= engine_->model().kv_geometry().block_tokens)
      return Status(StatusCode::internal, "expected a hit from " + std::string(to_string(tier)) +
                                              "; of " + std::to_string(hit->hit.cached_tokens) +
                                              " cached tokens " + std::to_string(cached) +
                                              " came from there");
    figures_.cached_tokens = hit->hit.cached_tokens;
    // What is resident ends where the new tokens begin, even if the first of those were there
    // before.
    const auto resident =
        resident_->first_token(prompt, std::min(hit->hit.cached_tokens, prompts_->prefix().size()));
    if (!resident) return resident.error();
    hits.add(hit->ms);
    residents.add(resident->ms);
    figures_.logits_equal &= same_bits(hit->logits, resident->logits);
    return {};
  }

  const TtftOptions& options_;
  const std::string directory_;
  std::ostream& out_;
  std::unique_ptr<Engine> engine_;
  std::optional<Prompts> prompts_;
  std::optional<Resident> resident_;
  Figures figures_;
};

void print_table(const Figures& figures, std::ostream& out) {
  const auto line = [&](const char* what, const Samples& samples, double floor,
                        const char* floor_name) {
    out << std::left << std::setw(28) << what << std::right << std::fixed << std::setprecision(2)
        << std::setw(10) << samples.median() << " ms";
    if (floor > 0) out << "   " << samples.median() / floor << "x " << floor_name;
    out << "\n";
  };
  const double resident = figures.resident.median();
  line("cold", figures.cold, resident, "resident");
  line("resident (floor)", figures.resident, 0, "");
  line("device", figures.device, resident, "resident");
  line("host", figures.host, resident, "resident");
  line("disk", figures.disk, figures.resident_beside_disk.median() + figures.bare_read.median(),
       "(resident + bare read)");
  line("bare read of as many bytes", figures.bare_read, 0, "");
  if (figures.redis.count() > 0)
    line("redis", figures.redis, figures.resident_beside_redis.median(), "resident");
}

}  // namespace

int run_ttft(const TtftOptions& options, std::ostream& out, std::ostream& err) {
  const test_support::TempDir temporary(options.directory.empty()
                                            ? std::filesystem::temp_directory_path()
                                            : std::filesystem::path(options.directory));
  print_environment(out, temporary.path());
  TtftBenchmark benchmark(options, temporary.path(), out);
  if (const Status status = benchmark.run(); !status.ok()) {
    err << "terrace-bench: " << status.message() << std::endl;
    return 1;
  }
  const Figures& figures = benchmark.figures();
  print_table(figures, out);
  nlohmann::ordered_json line = {{"bench", "ttft"},
                                 {"backend", benchmark.backend()},
                                 {"prompt_tokens", options.tokens},
                                 {"cached_tokens", figures.cached_tokens},
                                 {"cold_ms", figures.cold.median()},
                                 {"resident_ms", figures.resident.median()},
                                 {"device_ms", figures.device.median()},
                                 {"host_ms", figures.host.median()},
                                 {"disk_ms", figures.disk.median()},
                                 {"redis_ms", nullptr},
                                 {"bare_read_ms", figures.bare_read.median()},
                                 {"resident_beside_disk_ms", figures.resident_beside_disk.median()},
                                 {"logits_equal", figures.logits_equal},
                                 {"debug_build", is_debug_build()}};
  if (figures.redis.count() > 0) line["redis_ms"] = figures.redis.median();
  out << line.dump() << std::endl;
  // On a GPU the products of a library, which does not promise it for another number of rows.
  const bool promised = options.model.backend.kind == inference::BackendChoice::Kind::cpu;
  return figures.logits_equal || !promised ? 0 : 1;
}

}  // namespace terrace::bench
