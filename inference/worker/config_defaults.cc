#include "inference/worker/config_defaults.h"

#include "config/worker_config.h"
#include "inference/worker/backend.h"

namespace terrace::inference {

namespace {

Compute compute_of(config::WorkerCompute compute) {
  return compute == config::WorkerCompute::f32 ? Compute::f32 : Compute::bf16;
}

Isa isa_of(config::WorkerIsa isa) {
  switch (isa) {
    case config::WorkerIsa::portable:
      return Isa::portable;
    case config::WorkerIsa::avx2:
      return Isa::avx2;
    case config::WorkerIsa::avx512:
      return Isa::avx512;
    case config::WorkerIsa::avx512_bf16:
      return Isa::avx512_bf16;
    case config::WorkerIsa::automatic:
      break;
  }
  return Isa::automatic;
}

template <typename Target, typename Value>
void set_unless_given(const CLI::App& command, const char* flag, Target& target,
                      const Value& value) {
  if (command.count(flag) == 0) target = value;
}

}  // namespace

void apply_engine_config(const config::WorkerConfig& config, const CLI::App& command,
                         EngineOptions& engine) {
  const auto set = [&](const char* flag, auto& target, const auto& value) {
    set_unless_given(command, flag, target, value);
  };
  set("--model", engine.model_path, config.model);
  set("--backend", engine.model.backend, backend_choice(config.backend));
  set("--compute", engine.model.compute, compute_of(config.compute));
  set("--kv", engine.model.kv, config.kv);
  set("--isa", engine.model.isa, isa_of(config.isa));
  set("--threads", engine.model.threads, config.threads);
  // Either flag says where the cache is, or that there is none.
  if (command.count("--socket") == 0) set("--no-cache", engine.use_cache, config.cache);
  set("--socket", engine.socket_path, config.socket_path);
  set("--token-file", engine.token_file, config.token_file);
  engine.single_flight_wait = std::chrono::milliseconds(config.single_flight_wait_ms);
}

Status apply_config_defaults(const std::string& path, const CLI::App& command,
                             GenerateArguments& arguments) {
  const auto config = config::load_worker_config(path, {});
  if (!config) return config.error();
  apply_engine_config(*config, command, arguments.engine);
  const auto set = [&](const char* flag, auto& target, const auto& value) {
    set_unless_given(command, flag, target, value);
  };
  GenerateOptions& generate = arguments.generate;
  set("--max-tokens", generate.max_tokens, static_cast<std::uint32_t>(config->max_tokens));
  set("--temperature", generate.sampling.temperature, config->sampling.temperature);
  set("--top-k", generate.sampling.top_k, static_cast<std::uint32_t>(config->sampling.top_k));
  set("--top-p", generate.sampling.top_p, config->sampling.top_p);
  set("--seed", generate.sampling.seed, config->sampling.seed);
  return {};
}

}  // namespace terrace::inference
