#include "config/worker_config.h"

#include "config/option_reader.h"
#include "config/paths.h"
#include "core/default_paths.h"

namespace terrace::config {

Result<WorkerConfig> load_worker_config(const std::optional<std::filesystem::path>& file,
                                        std::span<const Override> overrides) {
  Result<std::vector<Entry>> entries = read_entries(file, overrides);
  if (!entries) return error(entries.error());
  OptionReader options(std::move(*entries));

  WorkerConfig config;
  config.socket_path = default_socket_path();
  options.text("model", config.model);
  read_socket_path(options, config.socket_path);
  options.flag("cache", config.cache);
  options.integer("single_flight_wait_ms", config.single_flight_wait_ms, 0, 60'000);
  options.choice("compute", config.compute,
                 {{"bf16", WorkerCompute::bf16}, {"f32", WorkerCompute::f32}});
  options.choice("kv", config.kv, {{"bf16", KvDtype::bf16}, {"f32", KvDtype::f32}});
  options.choice("isa", config.isa,
                 {{"auto", WorkerIsa::automatic},
                  {"portable", WorkerIsa::portable},
                  {"avx2", WorkerIsa::avx2},
                  {"avx512", WorkerIsa::avx512},
                  {"avx512_bf16", WorkerIsa::avx512_bf16}});
  options.integer("threads", config.threads, 0, 1024);
  options.integer("max_tokens", config.max_tokens, 1, 1'000'000);
  options.number("sampling.temperature", config.sampling.temperature, 0, 100);
  options.integer("sampling.top_k", config.sampling.top_k, 0, 1'000'000);
  options.number("sampling.top_p", config.sampling.top_p, 0, 1);
  options.integer("sampling.seed", config.sampling.seed, std::uint32_t{0}, UINT32_MAX);

  if (Status status = options.finish(); !status.ok()) return error(status);
  return config;
}

}  // namespace terrace::config
