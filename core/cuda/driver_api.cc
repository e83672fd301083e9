#include "core/cuda/driver_api.h"

#include <dlfcn.h>

namespace terrace::cuda {
namespace {

// The library's name since ever; libcuda.so without a number comes with development packages only.
constexpr const char* driver_library = "libcuda.so.1";
// The interface asked for: every function below had its signature then already.
constexpr int wanted_version = 12000;

// cuGetProcAddress_v2, which gives the variant of a function that a version of CUDA had.
using GetProcAddress = ResultCode (*)(const char* symbol, void** function, int version,
                                      unsigned long long flags, int* query_result);

template <typename Function>
void assign(Function& to, void* from) {
  to = reinterpret_cast<Function>(from);
}

class Lookup {
 public:
  explicit Lookup(GetProcAddress get) : get_(get) {}

  template <typename Function>
  void operator()(Function& function, const char* name) {
    void* found = nullptr;
    int query_result = 0;
    const ResultCode code = get_(name, &found, wanted_version, 0, &query_result);
    if ((code != success || !found) && missing_.empty()) missing_ = name;
    assign(function, found);
  }
  const std::string& missing() const { return missing_; }

 private:
  GetProcAddress get_;
  std::string missing_;
};

void look_up(DriverApi& api, Lookup& lookup) {
  lookup(api.init, "cuInit");
  lookup(api.driver_get_version, "cuDriverGetVersion");
  lookup(api.get_error_name, "cuGetErrorName");
  lookup(api.get_error_string, "cuGetErrorString");
  lookup(api.device_get, "cuDeviceGet");
  lookup(api.device_get_count, "cuDeviceGetCount");
  lookup(api.device_get_name, "cuDeviceGetName");
  lookup(api.device_get_uuid, "cuDeviceGetUuid");
  lookup(api.device_get_attribute, "cuDeviceGetAttribute");
  lookup(api.primary_context_set_flags, "cuDevicePrimaryCtxSetFlags");
  lookup(api.primary_context_retain, "cuDevicePrimaryCtxRetain");
  lookup(api.primary_context_release, "cuDevicePrimaryCtxRelease");
  lookup(api.context_set_current, "cuCtxSetCurrent");
  lookup(api.mem_get_info, "cuMemGetInfo");
  lookup(api.mem_get_allocation_granularity, "cuMemGetAllocationGranularity");
  lookup(api.mem_create, "cuMemCreate");
  lookup(api.mem_release, "cuMemRelease");
  lookup(api.mem_address_reserve, "cuMemAddressReserve");
  lookup(api.mem_address_free, "cuMemAddressFree");
  lookup(api.mem_map, "cuMemMap");
  lookup(api.mem_unmap, "cuMemUnmap");
  lookup(api.mem_set_access, "cuMemSetAccess");
  lookup(api.mem_export_to_shareable_handle, "cuMemExportToShareableHandle");
  lookup(api.mem_import_from_shareable_handle, "cuMemImportFromShareableHandle");
  lookup(api.mem_host_register, "cuMemHostRegister");
  lookup(api.mem_host_unregister, "cuMemHostUnregister");
  lookup(api.mem_host_alloc, "cuMemHostAlloc");
  lookup(api.mem_free_host, "cuMemFreeHost");
  lookup(api.mem_alloc, "cuMemAlloc");
  lookup(api.mem_free, "cuMemFree");
  lookup(api.memcpy_host_to_device_async, "cuMemcpyHtoDAsync");
  lookup(api.memcpy_device_to_host_async, "cuMemcpyDtoHAsync");
  lookup(api.memcpy_device_to_device_async, "cuMemcpyDtoDAsync");
  lookup(api.stream_create, "cuStreamCreate");
  lookup(api.stream_destroy, "cuStreamDestroy");
  lookup(api.stream_synchronize, "cuStreamSynchronize");
  lookup(api.event_create, "cuEventCreate");
  lookup(api.event_record, "cuEventRecord");
  lookup(api.event_synchronize, "cuEventSynchronize");
  lookup(api.event_elapsed_time, "cuEventElapsedTime");
  lookup(api.event_destroy, "cuEventDestroy");
  lookup(api.module_load_data, "cuModuleLoadData");
  lookup(api.module_unload, "cuModuleUnload");
  lookup(api.module_get_function, "cuModuleGetFunction");
  lookup(api.launch_kernel, "cuLaunchKernel");
  lookup(api.memset_async, "cuMemsetD8Async");
  lookup(api.stream_begin_capture, "cuStreamBeginCapture");
  lookup(api.stream_end_capture, "cuStreamEndCapture");
  lookup(api.graph_instantiate, "cuGraphInstantiateWithFlags");
  lookup(api.graph_launch, "cuGraphLaunch");
  lookup(api.graph_destroy, "cuGraphDestroy");
  lookup(api.graph_exec_destroy, "cuGraphExecDestroy");
}

}  // namespace

Result<std::unique_ptr<const DriverApi>> load_driver() {
  void* library = ::dlopen(driver_library, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return error(StatusCode::unavailable,
                 "there is no CUDA driver on this machine (" + std::string(::dlerror()) + ")");
  GetProcAddress get = nullptr;
  assign(get, ::dlsym(library, "cuGetProcAddress_v2"));
  if (!get)
    return error(StatusCode::unavailable,
                 "the CUDA driver is too old: it has no cuGetProcAddress_v2 (CUDA 12)");
  auto api = std::make_unique<DriverApi>();
  Lookup lookup(get);
  look_up(*api, lookup);
  if (!lookup.missing().empty())
    return error(StatusCode::unavailable, "the CUDA driver has no " + lookup.missing());
  if (const ResultCode code = api->init(0); code != success)
    return error(StatusCode::unavailable,
                 to_status(*api, code, "the CUDA driver does not start").message());
  return std::unique_ptr<const DriverApi>(std::move(api));
}

Status to_status(const DriverApi& api, ResultCode code, std::string_view what) {
  if (code == success) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.get_error_name(code, &name) != success) name = nullptr;
  if (api.get_error_string(code, &text) != success) text = nullptr;
  std::string message(what);
  message += ": ";
  message += name ? name : "CUDA error " + std::to_string(code);
  if (text) message += std::string(" (") + text + ")";
  return {code == out_of_memory ? StatusCode::no_space : StatusCode::io_error, std::move(message)};
}

}  // namespace terrace::cuda
