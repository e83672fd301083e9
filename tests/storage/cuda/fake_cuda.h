// A stand-in for the CUDA driver: the table of its functions (core/cuda/driver_api.h) over memory
// of this machine. What a device does differently from a CPU it does, too:
//  - device memory has addresses that the CPU cannot touch (that is a SIGSEGV);
//  - what is put on a stream happens when somebody waits for it, the latest moment allowed;
//  - kernels other than the checksum's do what they were given to do by add_kernel(), or nothing;
//  - most calls fail without a context that is current on their thread.
//  - streams can be captured as graphs, and memory not allocated or waited for meanwhile.
// Also built as a libcuda.so.1 of its own, so that programs find it as they would find the driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "core/cuda/driver_api.h"

namespace terrace::cuda::fake {

struct Options {
  int devices = 1;
  std::size_t memory_bytes = std::size_t{1} << 30;  // of a device
  bool can_share_memory = true;
  bool kernels_load = true;
};

// Forgets everything but live objects, which there should be none of.
void reset(const Options& options = {});
DriverApi api();

// The call number `nth` from now on (0: the next one) returns `code`, but for those that give
// something back: these always work. A number past the last call leaves the world as it is.
void fail_call(std::int64_t nth, ResultCode code = out_of_memory);
// Whether it has come to that since.
bool failed();
// The copy number `nth` from now on is accepted and fails when it is carried out; with it all that
// is waited for later on, as after an error of a device.
void break_device_at_copy(std::int64_t nth);

// How a kernel was launched.
struct Launch {
  unsigned grid_x = 1, grid_y = 1, threads = 1;
};
// What the kernel `name` does, whatever module it is looked for in. `arguments` is its one
// argument, of `argument_bytes`; while it runs, device addresses can be read and written.
void add_kernel(const std::string& name, std::size_t argument_bytes,
                std::function<void(const Launch&, const void* arguments)> run);
// Puts work of a library's on a stream, which is carried out as a kernel is.
ResultCode put_work(StreamHandle stream, std::function<void()> work);

// Contexts, allocations, mappings, streams, events, modules, registrations: what was not given
// back.
std::size_t live_objects();
std::size_t registered_bytes();
std::size_t kernel_launches();
std::size_t graph_launches();
std::size_t allocated_bytes();  // of a device's memory
// What the CPU cannot see otherwise: where the bytes at a device address lie in this process.
std::byte* behind(DeviceAddress address);

}  // namespace terrace::cuda::fake
