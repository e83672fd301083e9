// The few calls of the CUDA driver that Terrace makes, looked up when the program runs: one binary
// starts with and without a driver, and compiles without the CUDA toolkit. A table of functions, so
// that tests put a stand-in in the driver's place. The types and numbers here are those of cuda.h
// (stable since CUDA 11.2); a test compares them where that header is.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "core/status.h"

namespace terrace::cuda {

using ResultCode = int;
constexpr ResultCode success = 0;
constexpr ResultCode invalid_value = 1;
constexpr ResultCode out_of_memory = 2;
constexpr ResultCode no_device = 100;

using DeviceNumber = int;
using DeviceAddress = unsigned long long;
using AllocationHandle = unsigned long long;
using ContextHandle = struct ContextOfDriver*;
using StreamHandle = struct StreamOfDriver*;
using EventHandle = struct EventOfDriver*;
using ModuleHandle = struct ModuleOfDriver*;
using FunctionHandle = struct FunctionOfDriver*;
using GraphHandle = struct GraphOfDriver*;
using GraphExecHandle = struct GraphExecOfDriver*;

struct Uuid {
  char bytes[16];
};

struct MemoryLocation {
  int type = 0;
  int id = 0;
};

struct AllocationProperties {
  int type = 0;
  int requested_handle_types = 0;
  MemoryLocation location;
  void* win32_handle_meta_data = nullptr;
  struct {
    unsigned char compression_type = 0, gpu_direct_rdma_capable = 0;
    unsigned short usage = 0;
    unsigned char reserved[4] = {};
  } flags;
};

struct AccessDescription {
  MemoryLocation location;
  int flags = 0;
};

constexpr int allocation_type_pinned = 1;
constexpr int location_type_device = 1;
constexpr int handle_type_posix_fd = 1;
constexpr int access_read_write = 3;
constexpr int granularity_recommended = 1;
constexpr int attribute_compute_capability_major = 75;
constexpr int attribute_compute_capability_minor = 76;
constexpr int attribute_virtual_memory_management = 102;
constexpr int attribute_posix_fd_handles = 103;
constexpr unsigned context_blocking_sync = 4;
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_blocking_sync = 1;
constexpr unsigned event_disable_timing = 2;
constexpr unsigned host_register_portable = 1;
constexpr int capture_thread_local = 1;

// Each member is the driver's function of the name in the comment. All return a ResultCode and may
// be called from any thread; most need a context that is current on it (Device::make_current).
struct DriverApi {
  ResultCode (*init)(unsigned flags);                                  // cuInit
  ResultCode (*driver_get_version)(int* version);                      // cuDriverGetVersion
  ResultCode (*get_error_name)(ResultCode code, const char** name);    // cuGetErrorName
  ResultCode (*get_error_string)(ResultCode code, const char** text);  // cuGetErrorString
  ResultCode (*device_get)(DeviceNumber* device, int ordinal);         // cuDeviceGet
  ResultCode (*device_get_count)(int* count);                          // cuDeviceGetCount
  ResultCode (*device_get_name)(char* name, int bytes, DeviceNumber);  // cuDeviceGetName
  ResultCode (*device_get_uuid)(Uuid* uuid, DeviceNumber);             // cuDeviceGetUuid
  ResultCode (*device_get_attribute)(int* value, int attribute, DeviceNumber);
  ResultCode (*primary_context_set_flags)(DeviceNumber, unsigned flags);
  ResultCode (*primary_context_retain)(ContextHandle* context, DeviceNumber);
  ResultCode (*primary_context_release)(DeviceNumber);
  ResultCode (*context_set_current)(ContextHandle context);           // cuCtxSetCurrent
  ResultCode (*mem_get_info)(std::size_t* free, std::size_t* total);  // cuMemGetInfo
  ResultCode (*mem_get_allocation_granularity)(std::size_t* bytes, const AllocationProperties*,
                                               int option);
  ResultCode (*mem_create)(AllocationHandle* handle, std::size_t bytes, const AllocationProperties*,
                           unsigned long long flags);
  ResultCode (*mem_release)(AllocationHandle handle);
  ResultCode (*mem_address_reserve)(DeviceAddress* address, std::size_t bytes,
                                    std::size_t alignment, DeviceAddress hint,
                                    unsigned long long flags);
  ResultCode (*mem_address_free)(DeviceAddress address, std::size_t bytes);
  ResultCode (*mem_map)(DeviceAddress address, std::size_t bytes, std::size_t offset,
                        AllocationHandle handle, unsigned long long flags);
  ResultCode (*mem_unmap)(DeviceAddress address, std::size_t bytes);
  ResultCode (*mem_set_access)(DeviceAddress address, std::size_t bytes, const AccessDescription*,
                               std::size_t count);
  // Writes an int for handle_type_posix_fd; the descriptor is the caller's to close.
  ResultCode (*mem_export_to_shareable_handle)(void* shareable, AllocationHandle handle, int type,
                                               unsigned long long flags);
  // `shareable` is the descriptor's number as a pointer; the descriptor stays the caller's.
  ResultCode (*mem_import_from_shareable_handle)(AllocationHandle* handle, void* shareable,
                                                 int type);
  ResultCode (*mem_host_register)(void* memory, std::size_t bytes, unsigned flags);
  ResultCode (*mem_host_unregister)(void* memory);
  ResultCode (*mem_host_alloc)(void** memory, std::size_t bytes, unsigned flags);
  ResultCode (*mem_free_host)(void* memory);
  ResultCode (*mem_alloc)(DeviceAddress* address, std::size_t bytes);
  ResultCode (*mem_free)(DeviceAddress address);
  ResultCode (*memcpy_host_to_device_async)(DeviceAddress to, const void* from, std::size_t bytes,
                                            StreamHandle stream);
  ResultCode (*memcpy_device_to_host_async)(void* to, DeviceAddress from, std::size_t bytes,
                                            StreamHandle stream);
  ResultCode (*memcpy_device_to_device_async)(DeviceAddress to, DeviceAddress from,
                                              std::size_t bytes, StreamHandle stream);
  ResultCode (*memset_async)(DeviceAddress to, unsigned char value, std::size_t bytes,
                             StreamHandle stream);                     // cuMemsetD8Async
  ResultCode (*stream_create)(StreamHandle* stream, unsigned flags);   // cuStreamCreate
  ResultCode (*stream_destroy)(StreamHandle stream);                   // cuStreamDestroy
  ResultCode (*stream_synchronize)(StreamHandle stream);               // cuStreamSynchronize
  ResultCode (*event_create)(EventHandle* event, unsigned flags);      // cuEventCreate
  ResultCode (*event_record)(EventHandle event, StreamHandle stream);  // cuEventRecord
  ResultCode (*event_synchronize)(EventHandle event);                  // cuEventSynchronize
  ResultCode (*event_elapsed_time)(float* ms, EventHandle from, EventHandle to);
  ResultCode (*event_destroy)(EventHandle event);                           // cuEventDestroy
  ResultCode (*module_load_data)(ModuleHandle* module, const void* image);  // cuModuleLoadData
  ResultCode (*module_unload)(ModuleHandle module);                         // cuModuleUnload
  ResultCode (*module_get_function)(FunctionHandle* function, ModuleHandle module,
                                    const char* name);
  ResultCode (*launch_kernel)(FunctionHandle function, unsigned grid_x, unsigned grid_y,
                              unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                              unsigned shared_bytes, StreamHandle stream, void** parameters,
                              void** extra);
  // What is put on the stream until the end becomes a graph instead of happening.
  ResultCode (*stream_begin_capture)(StreamHandle stream, int mode);
  ResultCode (*stream_end_capture)(StreamHandle stream, GraphHandle* graph);
  ResultCode (*graph_instantiate)(GraphExecHandle* executable, GraphHandle graph,
                                  unsigned long long flags);  // cuGraphInstantiateWithFlags
  ResultCode (*graph_launch)(GraphExecHandle executable, StreamHandle stream);  // cuGraphLaunch
  ResultCode (*graph_destroy)(GraphHandle graph);                               // cuGraphDestroy
  ResultCode (*graph_exec_destroy)(GraphExecHandle executable);  // cuGraphExecDestroy
};

// The driver of this machine, initialized. unavailable, with a reason for people, where there is
// none, where it is too old, or where it finds no device or does not start. The library stays
// loaded until the process ends: a driver has threads of its own.
Result<std::unique_ptr<const DriverApi>> load_driver();

// ok, or what `code` means: no_space if the device's memory is short, else io_error. `what` says
// what was tried.
Status to_status(const DriverApi& api, ResultCode code, std::string_view what);

}  // namespace terrace::cuda
