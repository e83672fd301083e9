// The options of terrace-worker. config/worker.toml is the same list with a comment each; flags of
// the command line win.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "config/source.h"
#include "core/kv_layout.h"
#include "core/status.h"

namespace terrace::config {

enum class WorkerCompute { bf16, f32 };
enum class WorkerIsa { automatic, portable, avx2, avx512, avx512_bf16 };

struct SamplingOptions {
  double temperature = 0;  // 0: greedy
  int top_k = 0;           // 0: all
  double top_p = 1;
  std::uint32_t seed = 0;
};

struct WorkerConfig {
  std::string model;                   // a GGUF file; empty: must come from the command line
  std::string socket_path;             // default_socket_path() unless set
  bool cache = true;                   // false: serve without the daemon
  int single_flight_wait_ms = 10'000;  // for what another worker computes; 0: not at all
  WorkerCompute compute = WorkerCompute::bf16;
  KvDtype kv = KvDtype::bf16;
  WorkerIsa isa = WorkerIsa::automatic;
  int threads = 0;  // 0: one a core that the process may use
  int max_tokens = 256;
  SamplingOptions sampling;
};

// As load_daemon_config.
Result<WorkerConfig> load_worker_config(const std::optional<std::filesystem::path>& file,
                                        std::span<const Override> overrides);

}  // namespace terrace::config
