#include "bench/load.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <vector>

#include "bench/environment.h"
#include "bench/load_client.h"
#include "bench/process_usage.h"
#include "bench/stalled_client.h"
#include "core/bytes.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"

namespace terrace::bench {

namespace {

using Clock = LoadClient::Clock;

// The device arena: some 8,000 blocks, so that it is full soon and the rest is evictions.
constexpr std::uint64_t arena_bytes = 128 * mib;
constexpr std::uint64_t prompt_seed = 1;
// Each round has a phase of pings, one of the mix, and one of the mix beside a client that does not
// read.
constexpr int phases_per_round = 3;
constexpr std::chrono::milliseconds longest_phase{2000};
constexpr int fewest_rounds = 5;
// Before anything counts the mix runs until the arena is full, and then until a client that does
// not read was cut: what the daemon's allocator has kept by then it uses again.
constexpr std::chrono::milliseconds warm_up{1000}, warm_up_piece{250};
constexpr std::chrono::seconds longest_wait_for_cut{60};
constexpr std::size_t shown_log_bytes = 1000;
constexpr const char* call_names[load_calls] = {"match", "acquire", "reserve", "seal", "release"};

// Of one kind of phase; a sample a round.
struct PhaseSamples {
  Samples requests_per_s, p50_us, p99_us, daemon_us_per_request;

  void add(const LoadFigures& figures, double seconds, double cpu_s) {
    const auto requests = static_cast<double>(figures.requests);
    requests_per_s.add(requests / seconds);
    p50_us.add(figures.latency_us.median());
    p99_us.add(figures.latency_us.quantile(0.99));
    daemon_us_per_request.add(requests > 0 ? 1e6 * cpu_s / requests : 0);
  }
};

class Load {
 public:
  Load(const LoadOptions& options, const std::string& directory)
      : options_(options),
        daemon_(
            {test_support::program_directory() + "/terraced", directory, settings(options.disk)}) {}

  // Throws a kj::Exception if anything is in the way of measuring.
  void run();
  int report(std::ostream& out, std::ostream& err);

 private:
  static std::vector<std::string> settings(bool disk) {
    return {"device.capacity=" + std::to_string(arena_bytes), "host.capacity=0",
            std::string("disk.enabled=") + (disk ? "true" : "false"), "disk.capacity=4GiB"};
  }

  void connect();
  void warm();
  // Lets all clients do `what` for so long.
  template <typename What>
  LoadFigures phase(std::chrono::milliseconds duration, PhaseSamples* samples, What&& what);
  LoadFigures mix(std::chrono::milliseconds duration, PhaseSamples* samples);
  void count(const LoadFigures& figures);

  const LoadOptions options_;
  test_support::DaemonProcess daemon_;
  kj::AsyncIoContext io_ = kj::setupAsyncIo();
  std::unique_ptr<LoadPrompts> prompts_;
  std::vector<std::unique_ptr<LoadClient>> clients_;
  std::size_t rounds_ = 0;
  PhaseSamples pings_, mixes_, beside_stalled_;
  std::array<Samples, load_calls> call_p50_us_;
  LoadFigures all_;  // counts of every mix
  std::uint64_t begin_rss_bytes_ = 0, end_rss_bytes_ = 0, peak_rss_bytes_ = 0;
  std::uint64_t stalled_cuts_ = 0, stalled_bytes_ = 0;
};

void Load::connect() {
  const Status started = daemon_.start();
  KJ_REQUIRE(started.ok(), started.message().c_str());
  const SpaceDescriptor space = small_space(load_block_tokens, load_block_bytes);
  prompts_ = std::make_unique<LoadPrompts>(space.digest(), prompt_seed);
  std::shared_ptr<const client::SessionArena> arena;
  for (std::size_t i = 0; i < options_.clients; ++i) {
    auto link =
        client::Link::open(
            io_, {.socket_path = daemon_.socket_path(), .client_name = "terrace-bench"}, arena)
            .wait(io_.waitScope);
    arena = link->arena();  // mapped once
    clients_.push_back(std::make_unique<LoadClient>(kj::mv(link), *prompts_));
    clients_.back()->open_space(space).wait(io_.waitScope);
  }
  for (const Chain& prefix : prompts_->prefixes())
    clients_.front()->store(prefix, all_).wait(io_.waitScope);
}

void Load::warm() {
  mix(warm_up, nullptr);
  const StalledClient stalled(daemon_.socket_path());
  const auto limit = Clock::now() + longest_wait_for_cut;
  while (stalled.cuts() == 0 && Clock::now() < limit) mix(warm_up_piece, nullptr);
  if (stalled.cuts() == 0) all_.fail("who does not read was not cut");
}

template <typename What>
LoadFigures Load::phase(std::chrono::milliseconds duration, PhaseSamples* samples, What&& what) {
  LoadFigures figures;
  const double cpu_before_s = cpu_seconds(daemon_.pid());
  const auto begin = Clock::now();
  kj::Vector<kj::Promise<void>> all;
  for (const auto& client : clients_) all.add(what(*client, begin + duration, figures));
  kj::joinPromises(all.releaseAsArray()).wait(io_.waitScope);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (samples != nullptr) samples->add(figures, seconds, cpu_seconds(daemon_.pid()) - cpu_before_s);
  peak_rss_bytes_ = std::max(peak_rss_bytes_, status_bytes(daemon_.pid(), "VmRSS"));
  return figures;
}

LoadFigures Load::mix(std::chrono::milliseconds duration, PhaseSamples* samples) {
  LoadFigures figures =
      phase(duration, samples, [](LoadClient& client, Clock::time_point end, LoadFigures& counts) {
        return client.run_mix(end, counts);
      });
  count(figures);
  return figures;
}

void Load::count(const LoadFigures& figures) {
  all_.requests += figures.requests;
  for (std::size_t i = 0; i < load_calls; ++i) all_.sizes[i].add(figures.sizes[i]);
  all_.sealed_blocks += figures.sealed_blocks;
  all_.matched_blocks += figures.matched_blocks;
  all_.asked_blocks += figures.asked_blocks;
  all_.verified_blocks += figures.verified_blocks;
  all_.short_reservations += figures.short_reservations;
  if (figures.errors > 0 && all_.errors == 0) all_.first_error = figures.first_error;
  all_.errors += figures.errors;
}

void Load::run() {
  connect();
  const std::chrono::milliseconds total = std::chrono::seconds(options_.duration_s);
  const auto phase_length = std::min(longest_phase, total / (fewest_rounds * phases_per_round));
  rounds_ = static_cast<std::size_t>(total / (phase_length * phases_per_round));
  warm();
  const auto sizes = all_.sizes;
  begin_rss_bytes_ = status_bytes(daemon_.pid(), "VmRSS");
  for (std::size_t round = 0; round < rounds_; ++round) {
    LoadFigures pings = phase(phase_length, &pings_,
                              [&](LoadClient& client, Clock::time_point end, LoadFigures& counts) {
                                return client.run_pings(end, sizes, counts);
                              });
    if (pings.errors > 0) all_.fail(pings.first_error);
    const LoadFigures figures = mix(phase_length, &mixes_);
    for (std::size_t i = 0; i < load_calls; ++i)
      call_p50_us_[i].add(figures.latency_us_by_call[i].median());
    StalledClient stalled(daemon_.socket_path());
    mix(phase_length, &beside_stalled_);
    stalled_cuts_ += stalled.cuts();
    stalled_bytes_ += stalled.sent_bytes();
  }
  end_rss_bytes_ = status_bytes(daemon_.pid(), "VmRSS");
  for (const auto& client : clients_) client->drop();
  const int status = daemon_.stop();
  const std::string log = daemon_.log();
  if (status != 0)
    all_.fail("terraced did not stop in order: ..." +
              log.substr(log.size() - std::min(log.size(), shown_log_bytes)));
}

int Load::report(std::ostream& out, std::ostream& err) {
  const double ratio_rps = mixes_.requests_per_s.median() / pings_.requests_per_s.median();
  const double p99_ratio = mixes_.p99_us.median() / pings_.p99_us.median();
  const double stalled_ratio = beside_stalled_.p99_us.median() / mixes_.p99_us.median();
  const double growth = static_cast<double>(end_rss_bytes_) - static_cast<double>(begin_rss_bytes_);
  const auto percent = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  };
  out << options_.clients << " clients, each with one call at a time; medians of " << rounds_
      << " rounds\n"
      << std::fixed << std::left << std::setw(34) << "" << std::right << std::setw(12)
      << "requests/s" << std::setw(10) << "p50 us" << std::setw(10) << "p99 us" << std::setw(22)
      << "daemon us a request"
      << "\n";
  const auto row = [&](const char* name, const PhaseSamples& samples) {
    out << std::left << std::setw(34) << name << std::right << std::setprecision(0) << std::setw(12)
        << samples.requests_per_s.median() << std::setw(10) << samples.p50_us.median()
        << std::setw(10) << samples.p99_us.median() << std::setprecision(1) << std::setw(22)
        << samples.daemon_us_per_request.median() << "\n";
  };
  row("pings of the same sizes", pings_);
  row("the mix", mixes_);
  row("the mix beside who does not read", beside_stalled_);
  out << std::setprecision(2) << "requests " << ratio_rps << " of the pings', p99 " << p99_ratio
      << " times theirs; beside who does not read p99 is " << stalled_ratio << " times as long ("
      << stalled_cuts_ << " times cut)\n"
      << "p50 by call:";
  for (std::size_t i = 0; i < load_calls; ++i)
    out << " " << call_names[i] << " " << std::setprecision(0) << call_p50_us_[i].median() << " us"
        << (i + 1 < load_calls ? "," : "\n");
  out << "bytes of a call and its answer:";
  for (std::size_t i = 0; i < load_calls; ++i)
    out << " " << call_names[i] << " " << all_.sizes[i].mean_request() << "/"
        << all_.sizes[i].mean_reply() << (i + 1 < load_calls ? "," : "\n");
  out << std::setprecision(1) << percent(all_.matched_blocks, all_.asked_blocks)
      << " % of the blocks matched; " << all_.sealed_blocks << " sealed, " << all_.verified_blocks
      << " looked at, " << all_.short_reservations << " reservations came back short, "
      << all_.errors << " errors\n"
      << "memory of the daemon: " << format_bytes(begin_rss_bytes_) << " at the beginning, "
      << format_bytes(end_rss_bytes_) << " at the end, " << format_bytes(peak_rss_bytes_)
      << " at most\n";
  if (all_.errors > 0) err << "terrace-bench: " << all_.first_error << std::endl;
  const nlohmann::ordered_json line = {
      {"bench", "load"},
      {"clients", options_.clients},
      {"requests_per_s", mixes_.requests_per_s.median()},
      {"ping_requests_per_s", pings_.requests_per_s.median()},
      {"ratio_rps", ratio_rps},
      {"p99_us", mixes_.p99_us.median()},
      {"ping_p99_us", pings_.p99_us.median()},
      {"p99_ratio", p99_ratio},
      {"rss_growth_bytes", static_cast<std::int64_t>(growth)},
      {"errors", all_.errors},
      {"rss_begin_bytes", begin_rss_bytes_},
      {"rss_end_bytes", end_rss_bytes_},
      {"rss_peak_bytes", peak_rss_bytes_},
      {"p50_us", mixes_.p50_us.median()},
      {"ping_p50_us", pings_.p50_us.median()},
      {"daemon_us_per_request", mixes_.daemon_us_per_request.median()},
      {"ping_daemon_us_per_request", pings_.daemon_us_per_request.median()},
      {"beside_stalled_p99_us", beside_stalled_.p99_us.median()},
      {"beside_stalled_p99_ratio", stalled_ratio},
      {"stalled_cuts", stalled_cuts_},
      {"stalled_sent_bytes", stalled_bytes_},
      {"verified_blocks", all_.verified_blocks},
      {"sealed_blocks", all_.sealed_blocks},
      {"short_reservations", all_.short_reservations},
      {"rounds", rounds_},
      {"duration_s", options_.duration_s},
      {"disk", options_.disk},
      {"debug_build", is_debug_build()}};
  out << line.dump() << std::endl;
  return all_.errors == 0 ? 0 : 1;
}

}  // namespace

int run_load(const LoadOptions& options, std::ostream& out, std::ostream& err) {
  const test_support::TempDir temporary(options.directory.empty()
                                            ? std::filesystem::temp_directory_path()
                                            : std::filesystem::path(options.directory));
  print_environment(out, temporary.path());
  Load load(options, temporary.path());
  KJ_IF_MAYBE (exception, kj::runCatchingExceptions([&] { load.run(); })) {
    err << "terrace-bench: " << exception->getDescription().cStr() << std::endl;
    return 1;
  }
  return load.report(out, err);
}

}  // namespace terrace::bench
