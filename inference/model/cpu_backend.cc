// The CPU as a backend.
#include <new>
#include <system_error>
#include <utility>

#include "core/space.h"
#include "inference/cpu/kernel_table.h"
#include "inference/cpu/team.h"
#include "inference/model/cpu_forward_pass.h"
#include "inference/model/llama.h"
#include "inference/model/llama_tensors.h"
#include "inference/model/llama_weights.h"
#include "inference/model/rope.h"

namespace terrace::inference {

namespace {

// Raised whenever the bits of a result change with the same kernels.
constexpr int numerics_generation = 1;

class CpuBackend final : public Backend {
 public:
  CpuBackend(const CpuPassSettings& settings, std::unique_ptr<Team> team, LlamaWeights weights,
             std::vector<double> rope_frequencies)
      : team_(std::move(team)),
        weights_(std::move(weights)),
        pass_(settings, weights_, std::move(rope_frequencies), *team_) {}

  Status run(std::span<const PassPiece> pieces, std::span<const std::size_t> logit_rows,
             float* logits) override {
    try {
      pass_.run(pieces, logit_rows, logits);
    } catch (const std::bad_alloc&) {
      return {StatusCode::resource_exhausted, "no memory for the forward pass"};
    }
    return {};
  }
  KvMemory& kv_memory() override { return host_kv_memory(); }

 private:
  std::unique_ptr<Team> team_;
  LlamaWeights weights_;
  CpuForwardPass pass_;
};

std::string numerics_id(const CpuPassSettings& settings,
                        const std::vector<double>& rope_frequencies) {
  return std::string("cpu.") + settings.kernels->numerics(settings.compute) + "." +
         to_string(settings.compute) + "." + std::to_string(numerics_generation) + "." +
         rope_digest(rope_frequencies);
}

Result<std::unique_ptr<Llama>> load_checked(const gguf::File& file, const ModelOptions& options) {
  const auto config = read_llama_config(file);
  if (!config) return error(config.error());
  const auto tensors = find_llama_tensors(file, *config);
  if (!tensors) return error(tensors.error());
  auto frequencies = rope_frequencies(*config, tensors->rope_factors);
  if (!frequencies) return error(frequencies.error());

  CpuPassSettings settings;
  settings.config = *config;
  settings.kernels = &kernels(options.isa);
  settings.compute = options.compute;
  settings.geometry = kv_geometry(*config, options);
  settings.max_rows = max_pass_tokens;
  settings.shared_prefixes = options.shared_prefixes;
  auto team = std::make_unique<Team>(options.threads);
  auto weights =
      load_llama_weights(*tensors, *settings.kernels, options.compute, *team, options.progress);
  if (!weights) return error(weights.error());

  BackendDescription description{.name = "cpu",
                                 .config = *config,
                                 .geometry = settings.geometry,
                                 .compute = options.compute,
                                 .isa = settings.kernels->isa,
                                 .threads = team->threads(),
                                 .weight_bytes = weights->bytes(),
                                 .numerics_id = numerics_id(settings, *frequencies),
                                 .max_rows = settings.max_rows};
  return Llama::over(std::move(description),
                     std::make_unique<CpuBackend>(settings, std::move(team), std::move(*weights),
                                                  std::move(*frequencies)));
}

}  // namespace

Result<std::unique_ptr<Llama>> Llama::load(const gguf::File& file, const ModelOptions& options) {
  if (Status status = check_options(options); !status.ok()) return error(std::move(status));
  try {
    auto model = load_checked(file, options);
    if (!model) return error(model.error().with_context(file.path()));
    return model;
  } catch (const std::bad_alloc&) {
    return error(StatusCode::resource_exhausted, file.path() + ": no memory for the model");
  } catch (const std::system_error& failure) {
    return error(StatusCode::resource_exhausted,
                 "could not make the threads for the model: " + failure.code().message());
  }
}

}  // namespace terrace::inference
