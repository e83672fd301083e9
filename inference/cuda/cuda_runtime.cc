#include "inference/cuda/cuda_runtime.h"

#include <utility>

#include "inference/cuda/kernels/kernel_args.h"

namespace terrace::inference::gpu {

Result<std::shared_ptr<const CudaRuntime>> CudaRuntime::open(int ordinal) {
  auto runtime = std::make_shared<CudaRuntime>();
  if (runtime->rows.bytes == 0)
    return error(StatusCode::unavailable, "built without the CUDA toolkit: there are no kernels");
  auto driver = cuda::load_driver();
  if (!driver) return error(driver.error());
  runtime->driver = std::move(*driver);
  auto device = cuda::Device::open(*runtime->driver, ordinal);
  if (!device) return error(device.error());
  runtime->device = std::move(*device);
  auto blas = load_blas_lt();
  if (!blas) return error(blas.error());
  runtime->blas = std::move(*blas);
  return std::shared_ptr<const CudaRuntime>(std::move(runtime));
}

Result<std::unique_ptr<Kernels>> Kernels::load(const CudaRuntime& runtime) {
  const cuda::DriverApi& api = runtime.device->api();
  if (Status status = runtime.device->make_current(); !status.ok()) return error(std::move(status));
  std::unique_ptr<Kernels> kernels(new Kernels(*runtime.device));
  Status status;
  const auto load_module = [&](cuda::ModuleHandle& module, const cuda::KernelImage& image) {
    if (status.ok())
      status = cuda::to_status(api, api.module_load_data(&module, image.data),
                               "could not load the kernels");
  };
  const auto find = [&](cuda::FunctionHandle& function, cuda::ModuleHandle module,
                        const char* name) {
    if (status.ok())
      status = cuda::to_status(api, api.module_get_function(&function, module, name),
                               std::string("could not find the kernel ") + name);
  };
  load_module(kernels->rows_, runtime.rows);
  load_module(kernels->attention_, runtime.attention);
  find(kernels->embed, kernels->rows_, EmbedArgs::name);
  find(kernels->rms_norm, kernels->rows_, RmsNormArgs::name);
  find(kernels->add_bias, kernels->rows_, AddBiasArgs::name);
  find(kernels->silu_up, kernels->rows_, SiluUpArgs::name);
  find(kernels->rope_store, kernels->rows_, RopeStoreArgs::name);
  find(kernels->copy_tokens, kernels->rows_, CopyTokensArgs::name);
  find(kernels->attend_64, kernels->attention_, AttendArgs::name_64);
  find(kernels->attend_128, kernels->attention_, AttendArgs::name_128);
  find(kernels->attend_256, kernels->attention_, AttendArgs::name_256);
  find(kernels->merge, kernels->attention_, MergeArgs::name);
  if (!status.ok()) return error(std::move(status));
  return kernels;
}

Kernels::~Kernels() {
  (void)device_.make_current();
  for (const cuda::ModuleHandle module : {rows_, attention_})
    if (module) (void)device_.api().module_unload(module);
}

}  // namespace terrace::inference::gpu
