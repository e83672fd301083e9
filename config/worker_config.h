// The options of terrace-worker. config/worker.toml is the same list with a comment each; flags of
// the command line win.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "config/http_address.h"
#include "config/source.h"
#include "core/kv_layout.h"
#include "core/status.h"

namespace terrace::config {

enum class WorkerCompute { bf16, f32 };
enum class WorkerIsa { automatic, portable, avx2, avx512, avx512_bf16 };

// What computes: the processor, a GPU, or a GPU if there is one that can be used.
struct WorkerBackend {
  enum class Kind { cpu, cuda, automatic };
  Kind kind = Kind::cpu;
  int cuda_ordinal = 0;

  bool operator==(const WorkerBackend&) const = default;
};
// "cpu", "auto", "cuda" or "cuda:N"; nullopt for anything else.
std::optional<WorkerBackend> parse_worker_backend(std::string_view text);

struct SamplingOptions {
  double temperature = 0;  // 0: greedy
  int top_k = 0;           // 0: all
  double top_p = 1;
  std::uint32_t seed = 0;
};

enum class WorkerLogLevel { debug, info, warning };

// Of `terrace-worker serve`.
struct ServerOptions {
  HttpAddress listen{"127.0.0.1", 8080, true};
  std::string model_name;    // that requests give; empty: the file's name without .gguf
  std::string api_key_file;  // empty: everybody may ask
  int max_connections = 512;
  std::uint64_t max_body_bytes = std::uint64_t{4} << 20;
  int max_sequences = 64;  // answers that are computed at a time
  int max_queued = 256;    // that wait for it; more are told to come back
  int pass_tokens = 512;   // of one pass through the model, of all answers together
  std::uint64_t kv_memory_bytes = std::uint64_t{1} << 30;  // outside of the daemon's arena
  int drain_ms = 30'000;         // for answers that are under way when the server is to end
  int slow_request_ms = 30'000;  // a request that takes longer is a line of the log; 0: none is
  WorkerLogLevel log_level = WorkerLogLevel::info;
};

struct WorkerConfig {
  std::string model;                   // a GGUF file; empty: must come from the command line
  std::string socket_path;             // default_socket_path() unless set
  std::string token_file;              // "": no token
  bool cache = true;                   // false: serve without the daemon
  int single_flight_wait_ms = 10'000;  // for what another worker computes; 0: not at all
  WorkerBackend backend;
  WorkerCompute compute = WorkerCompute::bf16;
  KvDtype kv = KvDtype::bf16;
  WorkerIsa isa = WorkerIsa::automatic;
  int threads = 0;  // 0: one a core that the process may use
  int max_tokens = 256;
  SamplingOptions sampling;
  ServerOptions server;
};

// As load_daemon_config.
Result<WorkerConfig> load_worker_config(const std::optional<std::filesystem::path>& file,
                                        std::span<const Override> overrides);

}  // namespace terrace::config
