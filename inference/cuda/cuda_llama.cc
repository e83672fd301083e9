#include "inference/cuda/cuda_llama.h"

#include <new>
#include <system_error>
#include <utility>

#include "core/bytes.h"
#include "inference/cpu/isa.h"
#include "inference/cuda/cuda_backend.h"
#include "inference/model/llama_tensors.h"
#include "inference/model/rope.h"

namespace terrace::inference::gpu {

namespace {

// Raised whenever the bits of a result change with the same libraries.
constexpr int cuda_numerics_generation = 1;
constexpr std::uint32_t max_kernel_dim = 256;

Status check_supported(const LlamaConfig& config, const ModelOptions& options) {
  if (options.compute != Compute::bf16 || options.kv != KvDtype::bf16)
    return {StatusCode::unimplemented, "on a GPU products and KV are in bf16 only"};
  if (config.head_dim > max_kernel_dim)
    return {StatusCode::unimplemented, "heads of " + std::to_string(config.head_dim) +
                                           " values; the kernels for a GPU go up to " +
                                           std::to_string(max_kernel_dim)};
  return {};
}

std::string describe(const CudaMemoryNeed& need, const cuda::Device& device,
                     std::uint64_t free_bytes) {
  return "the model takes " + format_bytes(need.total()) + " of the memory of " + device.name() +
         " beside its KV (weights " + format_bytes(need.weights) + ", activations " +
         format_bytes(need.activations) + ", logits " + format_bytes(need.logits) + ", attention " +
         format_bytes(need.partials) + ", products " + format_bytes(need.products) + "); " +
         format_bytes(free_bytes) + " are free";
}

// What cuBLASLt computes depends on the device's generation and on the library.
Result<std::string> numerics_id(const CudaRuntime& runtime,
                                const std::vector<double>& rope_frequencies) {
  int generation[2] = {};
  const int attributes[2] = {cuda::attribute_compute_capability_major,
                             cuda::attribute_compute_capability_minor};
  for (int i = 0; i < 2; ++i)
    if (const auto code = runtime.driver->device_get_attribute(&generation[i], attributes[i],
                                                               runtime.device->number()))
      return error(cuda::to_status(*runtime.driver, code, "could not ask what device this is"));
  return "cuda.sm" + std::to_string(generation[0]) + std::to_string(generation[1]) + ".lt" +
         std::to_string(runtime.blas->get_version()) + ".bf16." +
         std::to_string(cuda_numerics_generation) + "." + rope_digest(rope_frequencies);
}

Result<std::unique_ptr<Llama>> load_checked_cuda(const gguf::File& file,
                                                 const ModelOptions& options,
                                                 std::shared_ptr<const CudaRuntime> runtime) {
  const auto config = read_llama_config(file);
  if (!config) return error(config.error());
  if (Status status = check_supported(*config, options); !status.ok())
    return error(std::move(status));
  const auto tensors = find_llama_tensors(file, *config);
  if (!tensors) return error(tensors.error());
  auto frequencies = rope_frequencies(*config, tensors->rope_factors);
  if (!frequencies) return error(frequencies.error());
  auto numerics = numerics_id(*runtime, *frequencies);
  if (!numerics) return error(numerics.error());

  const CudaSettings settings{.config = *config,
                              .geometry = kv_geometry(*config, options),
                              .max_rows = max_pass_tokens,
                              .shared_prefixes = options.shared_prefixes};
  const CudaMemoryNeed need = memory_need(settings, cuda_weight_bytes(*tensors));
  const auto free_bytes = runtime->device->free_bytes();
  if (!free_bytes) return error(free_bytes.error());
  const std::string text = describe(need, *runtime->device, *free_bytes);
  if (need.total() > *free_bytes) return error(StatusCode::resource_exhausted, text);
  if (options.notice) options.notice(text);

  Team team(options.threads);
  auto weights = load_cuda_weights(*tensors, *runtime, team, options.progress);
  if (!weights) return error(weights.error());
  BackendDescription description{.name = runtime->device->name(),
                                 .config = *config,
                                 .geometry = settings.geometry,
                                 .compute = Compute::bf16,
                                 .isa = best_isa(),
                                 .threads = team.threads(),
                                 .weight_bytes = need.weights,
                                 .numerics_id = std::move(*numerics),
                                 .max_rows = settings.max_rows};
  auto backend = CudaBackend::create(std::move(runtime), settings, std::move(*weights),
                                     std::move(*frequencies));
  if (!backend) return error(backend.error());
  return Llama::over(std::move(description), std::move(*backend));
}

}  // namespace

Result<std::unique_ptr<Llama>> load_cuda_llama(const gguf::File& file, const ModelOptions& options,
                                               std::shared_ptr<const CudaRuntime> runtime) {
  if (Status status = check_options(options); !status.ok()) return error(std::move(status));
  try {
    auto model = load_checked_cuda(file, options, std::move(runtime));
    if (!model) return error(model.error().with_context(file.path()));
    return model;
  } catch (const std::bad_alloc&) {
    return error(StatusCode::resource_exhausted, file.path() + ": no memory for the model");
  } catch (const std::system_error& failure) {
    return error(StatusCode::resource_exhausted,
                 "could not make the threads for the model: " + failure.code().message());
  }
}

}  // namespace terrace::inference::gpu
