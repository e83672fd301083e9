// The declarations of core/cuda/driver_api.h against those of the toolkit. Compiled where there is
// one.
#include <cuda.h>
#include <gtest/gtest.h>

#include "core/cuda/driver_api.h"
#include "tests/storage/cuda/same_call.h"

namespace terrace::cuda {
namespace {

#define TERRACE_SAME_CALL(member, function) \
  static_assert(SameCall<decltype(DriverApi::member), decltype(&::function)>::value)
TERRACE_SAME_CALL(init, cuInit);
TERRACE_SAME_CALL(driver_get_version, cuDriverGetVersion);
TERRACE_SAME_CALL(get_error_name, cuGetErrorName);
TERRACE_SAME_CALL(get_error_string, cuGetErrorString);
TERRACE_SAME_CALL(device_get, cuDeviceGet);
TERRACE_SAME_CALL(device_get_count, cuDeviceGetCount);
TERRACE_SAME_CALL(device_get_name, cuDeviceGetName);
TERRACE_SAME_CALL(device_get_uuid, cuDeviceGetUuid);
TERRACE_SAME_CALL(device_get_attribute, cuDeviceGetAttribute);
TERRACE_SAME_CALL(primary_context_set_flags, cuDevicePrimaryCtxSetFlags);
TERRACE_SAME_CALL(primary_context_retain, cuDevicePrimaryCtxRetain);
TERRACE_SAME_CALL(primary_context_release, cuDevicePrimaryCtxRelease);
TERRACE_SAME_CALL(context_set_current, cuCtxSetCurrent);
TERRACE_SAME_CALL(mem_get_info, cuMemGetInfo);
TERRACE_SAME_CALL(mem_get_allocation_granularity, cuMemGetAllocationGranularity);
TERRACE_SAME_CALL(mem_create, cuMemCreate);
TERRACE_SAME_CALL(mem_release, cuMemRelease);
TERRACE_SAME_CALL(mem_address_reserve, cuMemAddressReserve);
TERRACE_SAME_CALL(mem_address_free, cuMemAddressFree);
TERRACE_SAME_CALL(mem_map, cuMemMap);
TERRACE_SAME_CALL(mem_unmap, cuMemUnmap);
TERRACE_SAME_CALL(mem_set_access, cuMemSetAccess);
TERRACE_SAME_CALL(mem_export_to_shareable_handle, cuMemExportToShareableHandle);
TERRACE_SAME_CALL(mem_import_from_shareable_handle, cuMemImportFromShareableHandle);
TERRACE_SAME_CALL(mem_host_register, cuMemHostRegister);
TERRACE_SAME_CALL(mem_host_unregister, cuMemHostUnregister);
TERRACE_SAME_CALL(mem_host_alloc, cuMemHostAlloc);
TERRACE_SAME_CALL(mem_free_host, cuMemFreeHost);
TERRACE_SAME_CALL(mem_alloc, cuMemAlloc);
TERRACE_SAME_CALL(mem_free, cuMemFree);
TERRACE_SAME_CALL(memcpy_host_to_device_async, cuMemcpyHtoDAsync);
TERRACE_SAME_CALL(memcpy_device_to_host_async, cuMemcpyDtoHAsync);
TERRACE_SAME_CALL(memcpy_device_to_device_async, cuMemcpyDtoDAsync);
TERRACE_SAME_CALL(stream_create, cuStreamCreate);
TERRACE_SAME_CALL(stream_destroy, cuStreamDestroy);
TERRACE_SAME_CALL(stream_synchronize, cuStreamSynchronize);
TERRACE_SAME_CALL(event_create, cuEventCreate);
TERRACE_SAME_CALL(event_record, cuEventRecord);
TERRACE_SAME_CALL(event_synchronize, cuEventSynchronize);
TERRACE_SAME_CALL(event_elapsed_time, cuEventElapsedTime);
TERRACE_SAME_CALL(event_destroy, cuEventDestroy);
TERRACE_SAME_CALL(module_load_data, cuModuleLoadData);
TERRACE_SAME_CALL(module_unload, cuModuleUnload);
TERRACE_SAME_CALL(module_get_function, cuModuleGetFunction);
TERRACE_SAME_CALL(launch_kernel, cuLaunchKernel);
TERRACE_SAME_CALL(memset_async, cuMemsetD8Async);
TERRACE_SAME_CALL(stream_begin_capture, cuStreamBeginCapture);
TERRACE_SAME_CALL(stream_end_capture, cuStreamEndCapture);
TERRACE_SAME_CALL(graph_instantiate, cuGraphInstantiateWithFlags);
TERRACE_SAME_CALL(graph_launch, cuGraphLaunch);
TERRACE_SAME_CALL(graph_destroy, cuGraphDestroy);
TERRACE_SAME_CALL(graph_exec_destroy, cuGraphExecDestroy);

static_assert(sizeof(Uuid) == sizeof(CUuuid));
static_assert(sizeof(MemoryLocation) == sizeof(CUmemLocation));
static_assert(offsetof(MemoryLocation, id) == offsetof(CUmemLocation, id));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, requested_handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));

static_assert(success == CUDA_SUCCESS && invalid_value == CUDA_ERROR_INVALID_VALUE &&
              out_of_memory == CUDA_ERROR_OUT_OF_MEMORY && no_device == CUDA_ERROR_NO_DEVICE);
static_assert(allocation_type_pinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(location_type_device == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(handle_type_posix_fd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(access_read_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(granularity_recommended == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
static_assert(attribute_compute_capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              attribute_compute_capability_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(attribute_virtual_memory_management ==
              CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(attribute_posix_fd_handles ==
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(context_blocking_sync == CU_CTX_SCHED_BLOCKING_SYNC);
static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(event_blocking_sync == CU_EVENT_BLOCKING_SYNC);
static_assert(event_disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(capture_thread_local == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(host_register_portable == CU_MEMHOSTREGISTER_PORTABLE);

TEST(DriverHeader, AgreesWithTheToolkit) { SUCCEED(); }

}  // namespace
}  // namespace terrace::cuda
