#include "tests/storage/cuda/fake_cuda.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "storage/device/cuda/checksum_kernel.h"
#include "tests/storage/cuda/cpu_warp.h"

namespace terrace::cuda {

// What handles point to.
struct ContextOfDriver {};
struct StreamOfDriver {
  struct Step {
    std::function<ResultCode()> work;
    EventHandle event = nullptr;
  };
  std::deque<Step> steps;
  GraphHandle captured = nullptr;  // while it is captured
};
struct GraphOfDriver {
  std::deque<StreamOfDriver::Step> steps;
};
struct GraphExecOfDriver {
  std::deque<StreamOfDriver::Step> steps;
};
struct EventOfDriver {
  StreamHandle stream = nullptr;  // while it is on its way
};
struct ModuleOfDriver {};
struct FunctionOfDriver {
  std::size_t argument_bytes = 0;
  std::function<void(const fake::Launch&, const void*)> run;
};

namespace fake {
namespace {

constexpr ResultCode not_supported = 801, invalid_context = 201, broken = 719,
                     not_while_capturing = 900;
constexpr std::size_t granule_bytes = std::size_t{2} << 20;
constexpr const char* device_name = "stand-in";

struct Range {
  std::size_t bytes = 0;
  std::byte* memory = nullptr;  // null: addresses without memory
  bool accessible = false;
};

struct Allocation {
  int fd = -1;
  std::size_t bytes = 0;  // of the device's memory; 0 for one that was imported
};

struct World {
  std::recursive_mutex mutex;
  Options options;
  std::int64_t fail_in = -1, break_in = -1;
  ResultCode fail_code = success;
  bool has_failed = false, is_broken = false;
  std::size_t objects = 0, launches = 0, graph_launches = 0, allocated = 0;
  std::size_t captures = 0;  // under way
  std::map<DeviceAddress, Range> ranges;
  std::map<AllocationHandle, Allocation> allocations;
  AllocationHandle next_allocation = 1;
  std::map<void*, std::size_t> registered;
  ContextOfDriver context;
  FunctionOfDriver hash_kernel, other_kernel;
  std::map<std::string, FunctionOfDriver> kernels;
};

World& world() {
  static World one;
  return one;
}
thread_local ContextHandle current = nullptr;

using Lock = std::lock_guard<std::recursive_mutex>;

// What a call returns at once: what it was told to, or an error for want of a context.
ResultCode enter(bool needs_context = true) {
  World& w = world();
  if (w.fail_in >= 0 && w.fail_in-- == 0) {
    w.has_failed = true;
    return w.fail_code;
  }
  if (needs_context && !current) return invalid_context;
  return success;
}
#define TERRACE_FAKE_ENTER(...)   \
  const Lock lock(world().mutex); \
  if (const ResultCode code = enter(__VA_ARGS__); code != success) return code

ResultCode leave() {
  --world().objects;
  return success;
}

// The memory behind [address, address + bytes), null if that is not all mapped and accessible.
std::byte* resolve(DeviceAddress address, std::size_t bytes) {
  auto& ranges = world().ranges;
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin()) return nullptr;
  --found;
  const std::size_t offset = address - found->first;
  if (!found->second.memory || !found->second.accessible || offset > found->second.bytes ||
      bytes > found->second.bytes - offset)
    return nullptr;
  return found->second.memory + offset;
}

DeviceAddress reserve(std::size_t bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? 0 : reinterpret_cast<DeviceAddress>(at);
}

// While it lives, the CPU reaches memory under the device's addresses, as a kernel does.
class KernelRun {
 public:
  KernelRun() { protect(PROT_READ | PROT_WRITE); }
  ~KernelRun() { protect(PROT_NONE); }
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

 private:
  static void protect(int access) {
    for (const auto& [address, range] : world().ranges)
      if (range.memory && range.accessible)
        ::mprotect(reinterpret_cast<void*>(address), range.bytes, access);
  }
};

// Memory of a file under a device address, which the CPU cannot reach, and where it can.
std::byte* map_under(DeviceAddress address, std::size_t bytes, int fd, std::size_t offset) {
  const auto at = static_cast<off_t>(offset);
  void* const there =
      ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, at);
  void* const here = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
  return there == MAP_FAILED || here == MAP_FAILED ? nullptr : static_cast<std::byte*>(here);
}

void put(StreamHandle stream, StreamOfDriver::Step step) {
  (stream->captured ? stream->captured->steps : stream->steps).push_back(std::move(step));
}

ResultCode carry_out(StreamHandle stream, EventHandle until) {
  while (!stream->steps.empty()) {
    const StreamOfDriver::Step step = std::move(stream->steps.front());
    stream->steps.pop_front();
    if (step.work && !world().is_broken && step.work() != success) world().is_broken = true;
    if (!step.event) continue;
    step.event->stream = nullptr;
    if (step.event == until) break;
  }
  return world().is_broken ? broken : success;
}

ResultCode put_copy(StreamHandle stream, std::function<ResultCode()> copy) {
  World& w = world();
  const bool breaks = w.break_in >= 0 && w.break_in-- == 0;
  put(stream, {[copy = std::move(copy), breaks] { return breaks ? broken : copy(); }});
  return success;
}

void hash_pieces(const std::byte* payload, std::uint64_t bytes, std::uint64_t* digests,
                 std::uint64_t warps) {
  using namespace storage;
  for (std::uint64_t piece = 0; piece < warps && piece * hash_piece_bytes < bytes; ++piece) {
    CpuWarp warp;
    warp.piece_bytes = std::min(hash_piece_bytes, bytes - piece * hash_piece_bytes);
    digests[piece] =
        warp_hash::hash_piece(
            warp, reinterpret_cast<const std::uint8_t*>(payload) + piece * hash_piece_bytes,
            warp.piece_bytes)
            .of[0];
  }
}

DriverApi make_api() {
  DriverApi api{};
  api.init = [](unsigned) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    return world().options.devices > 0 ? success : no_device;
  };
  api.driver_get_version = [](int* version) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    *version = 13000;
    return success;
  };
  api.get_error_name = [](ResultCode code, const char** name) -> ResultCode {
    *name = code == out_of_memory ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == broken      ? "CUDA_ERROR_LAUNCH_FAILED"
            : code == no_device   ? "CUDA_ERROR_NO_DEVICE"
                                  : "CUDA_ERROR_OF_THE_STAND_IN";
    return success;
  };
  api.get_error_string = [](ResultCode, const char** text) -> ResultCode {
    *text = "as the stand-in was told";
    return success;
  };
  api.device_get = [](DeviceNumber* device, int ordinal) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    *device = ordinal;
    return ordinal < world().options.devices ? success : invalid_value;
  };
  api.device_get_count = [](int* count) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    *count = world().options.devices;
    return success;
  };
  api.device_get_name = [](char* name, int bytes, DeviceNumber) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    std::strncpy(name, device_name, static_cast<std::size_t>(bytes));
    return success;
  };
  api.device_get_uuid = [](Uuid* uuid, DeviceNumber) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    std::memset(uuid->bytes, 0x42, sizeof uuid->bytes);
    return success;
  };
  api.device_get_attribute = [](int* value, int attribute, DeviceNumber) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    if (attribute == attribute_compute_capability_major ||
        attribute == attribute_compute_capability_minor) {
      *value = attribute == attribute_compute_capability_major ? 9 : 0;
      return success;
    }
    const bool asked =
        attribute == attribute_virtual_memory_management || attribute == attribute_posix_fd_handles;
    *value = asked && world().options.can_share_memory;
    return asked ? success : invalid_value;
  };
  api.primary_context_set_flags = [](DeviceNumber, unsigned) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    return success;
  };
  api.primary_context_retain = [](ContextHandle* context, DeviceNumber) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    *context = &world().context;
    ++world().objects;
    return success;
  };
  api.primary_context_release = [](DeviceNumber) -> ResultCode {
    const Lock lock(world().mutex);
    return leave();
  };
  api.context_set_current = [](ContextHandle context) -> ResultCode {
    TERRACE_FAKE_ENTER(false);
    current = context;
    return success;
  };
  api.mem_get_info = [](std::size_t* free, std::size_t* total) -> ResultCode {
    TERRACE_FAKE_ENTER();
    *total = world().options.memory_bytes;
    *free = *total - world().allocated;
    return success;
  };
  api.mem_get_allocation_granularity = [](std::size_t* bytes, const AllocationProperties*,
                                          int) -> ResultCode {
    TERRACE_FAKE_ENTER();
    *bytes = granule_bytes;
    return success;
  };
  api.mem_create = [](AllocationHandle* handle, std::size_t bytes,
                      const AllocationProperties* properties, unsigned long long) -> ResultCode {
    TERRACE_FAKE_ENTER();
    World& w = world();
    if (bytes == 0 || bytes % granule_bytes != 0 || properties->type != allocation_type_pinned ||
        properties->location.type != location_type_device ||
        properties->requested_handle_types != handle_type_posix_fd)
      return invalid_value;
    if (w.allocated + bytes > w.options.memory_bytes) return out_of_memory;
    const int fd = ::memfd_create("fake-cuda", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return out_of_memory;
    w.allocated += bytes;
    *handle = w.next_allocation++;
    w.allocations[*handle] = {fd, bytes};
    ++w.objects;
    return success;
  };
  api.mem_release = [](AllocationHandle handle) -> ResultCode {
    const Lock lock(world().mutex);
    auto node = world().allocations.extract(handle);
    if (node.empty()) return invalid_value;
    world().allocated -= node.mapped().bytes;
    ::close(node.mapped().fd);
    return leave();
  };
  api.mem_address_reserve = [](DeviceAddress* address, std::size_t bytes, std::size_t,
                               DeviceAddress, unsigned long long) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (bytes == 0 || bytes % granule_bytes != 0) return invalid_value;
    *address = reserve(bytes);
    if (!*address) return out_of_memory;
    world().ranges[*address].bytes = bytes;
    ++world().objects;
    return success;
  };
  api.mem_address_free = [](DeviceAddress address, std::size_t bytes) -> ResultCode {
    const Lock lock(world().mutex);
    const auto found = world().ranges.find(address);
    if (found == world().ranges.end() || found->second.bytes != bytes || found->second.memory)
      return invalid_value;
    ::munmap(reinterpret_cast<void*>(address), bytes);
    world().ranges.erase(found);
    return leave();
  };
  api.mem_map = [](DeviceAddress address, std::size_t bytes, std::size_t offset,
                   AllocationHandle handle, unsigned long long) -> ResultCode {
    TERRACE_FAKE_ENTER();
    World& w = world();
    const auto range = w.ranges.find(address);
    const auto allocation = w.allocations.find(handle);
    if (range == w.ranges.end() || allocation == w.allocations.end() ||
        range->second.bytes != bytes || range->second.memory)
      return invalid_value;
    struct stat info {};
    if (::fstat(allocation->second.fd, &info) != 0 ||
        offset + bytes > static_cast<std::size_t>(info.st_size))
      return invalid_value;
    range->second.memory = map_under(address, bytes, allocation->second.fd, offset);
    if (!range->second.memory) return out_of_memory;
    ++w.objects;
    return success;
  };
  api.mem_unmap = [](DeviceAddress address, std::size_t bytes) -> ResultCode {
    const Lock lock(world().mutex);
    const auto found = world().ranges.find(address);
    if (found == world().ranges.end() || found->second.bytes != bytes || !found->second.memory)
      return invalid_value;
    ::munmap(found->second.memory, bytes);
    ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    found->second.memory = nullptr;
    return leave();
  };
  api.mem_set_access = [](DeviceAddress address, std::size_t bytes, const AccessDescription* access,
                          std::size_t count) -> ResultCode {
    TERRACE_FAKE_ENTER();
    const auto found = world().ranges.find(address);
    if (found == world().ranges.end() || found->second.bytes != bytes || !found->second.memory ||
        count != 1 || access->flags != access_read_write)
      return invalid_value;
    found->second.accessible = true;
    return success;
  };
  api.mem_export_to_shareable_handle = [](void* shareable, AllocationHandle handle, int type,
                                          unsigned long long) -> ResultCode {
    TERRACE_FAKE_ENTER();
    const auto found = world().allocations.find(handle);
    if (found == world().allocations.end() || type != handle_type_posix_fd) return invalid_value;
    const int fd = ::dup(found->second.fd);
    if (fd < 0) return out_of_memory;
    std::memcpy(shareable, &fd, sizeof fd);
    return success;
  };
  api.mem_import_from_shareable_handle = [](AllocationHandle* handle, void* shareable,
                                            int type) -> ResultCode {
    TERRACE_FAKE_ENTER();
    const int fd = ::dup(static_cast<int>(reinterpret_cast<std::intptr_t>(shareable)));
    if (fd < 0 || type != handle_type_posix_fd) return invalid_value;
    *handle = world().next_allocation++;
    world().allocations[*handle] = {fd, 0};
    ++world().objects;
    return success;
  };
  api.mem_host_register = [](void* memory, std::size_t bytes, unsigned) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (!world().registered.emplace(memory, bytes).second) return invalid_value;
    ++world().objects;
    return success;
  };
  api.mem_host_unregister = [](void* memory) -> ResultCode {
    const Lock lock(world().mutex);
    return world().registered.erase(memory) == 1 ? leave() : invalid_value;
  };
  api.mem_host_alloc = [](void** memory, std::size_t bytes, unsigned) -> ResultCode {
    TERRACE_FAKE_ENTER();
    *memory = std::malloc(bytes);
    ++world().objects;
    return success;
  };
  api.mem_free_host = [](void* memory) -> ResultCode {
    const Lock lock(world().mutex);
    std::free(memory);
    return leave();
  };
  api.mem_alloc = [](DeviceAddress* address, std::size_t bytes) -> ResultCode {
    TERRACE_FAKE_ENTER();
    World& w = world();
    if (w.captures > 0) return not_while_capturing;
    if (bytes > w.options.memory_bytes - w.allocated) return out_of_memory;
    *address = reserve(bytes);
    const int fd = ::memfd_create("fake-cuda", MFD_CLOEXEC);
    const bool sized = fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0;
    std::byte* const memory = *address && sized ? map_under(*address, bytes, fd, 0) : nullptr;
    if (fd >= 0) ::close(fd);
    if (!memory) return out_of_memory;
    w.ranges[*address] = {bytes, memory, true};
    w.allocated += bytes;
    ++w.objects;
    return success;
  };
  api.mem_free = [](DeviceAddress address) -> ResultCode {
    const Lock lock(world().mutex);
    const auto found = world().ranges.find(address);
    if (found == world().ranges.end()) return invalid_value;
    ::munmap(found->second.memory, found->second.bytes);
    ::munmap(reinterpret_cast<void*>(address), found->second.bytes);
    world().allocated -= found->second.bytes;
    world().ranges.erase(found);
    return leave();
  };
  api.memset_async = [](DeviceAddress to, unsigned char value, std::size_t bytes,
                        StreamHandle stream) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (!resolve(to, bytes)) return invalid_value;
    put(stream, {[=] {
          std::memset(resolve(to, bytes), value, bytes);
          return success;
        }});
    return success;
  };
  api.memcpy_host_to_device_async = [](DeviceAddress to, const void* from, std::size_t bytes,
                                       StreamHandle stream) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (!resolve(to, bytes)) return invalid_value;
    return put_copy(stream, [=] {
      std::memcpy(resolve(to, bytes), from, bytes);
      return success;
    });
  };
  api.memcpy_device_to_host_async = [](void* to, DeviceAddress from, std::size_t bytes,
                                       StreamHandle stream) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (!resolve(from, bytes)) return invalid_value;
    return put_copy(stream, [=] {
      std::memcpy(to, resolve(from, bytes), bytes);
      return success;
    });
  };
  api.memcpy_device_to_device_async = [](DeviceAddress to, DeviceAddress from, std::size_t bytes,
                                         StreamHandle stream) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (!resolve(from, bytes) || !resolve(to, bytes)) return invalid_value;
    return put_copy(stream, [=] {
      std::memmove(resolve(to, bytes), resolve(from, bytes), bytes);
      return success;
    });
  };
  api.stream_create = [](StreamHandle* stream, unsigned) -> ResultCode {
    TERRACE_FAKE_ENTER();
    *stream = new StreamOfDriver;
    ++world().objects;
    return success;
  };
  api.stream_destroy = [](StreamHandle stream) -> ResultCode {
    const Lock lock(world().mutex);
    delete stream;
    return leave();
  };
  api.stream_synchronize = [](StreamHandle stream) -> ResultCode {
    const Lock lock(world().mutex);
    if (stream->captured) return not_while_capturing;
    const ResultCode told = enter();
    const ResultCode done = carry_out(stream, nullptr);
    return told != success ? told : done;
  };
  api.event_create = [](EventHandle* event, unsigned) -> ResultCode {
    TERRACE_FAKE_ENTER();
    *event = new EventOfDriver;
    ++world().objects;
    return success;
  };
  api.event_record = [](EventHandle event, StreamHandle stream) -> ResultCode {
    TERRACE_FAKE_ENTER();
    put(stream, {{}, event});
    event->stream = stream;
    return success;
  };
  api.event_synchronize = [](EventHandle event) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (!event->stream) return world().is_broken ? broken : success;
    return carry_out(event->stream, event);
  };
  api.event_elapsed_time = [](float* ms, EventHandle, EventHandle) -> ResultCode {
    *ms = 1;
    return success;
  };
  api.event_destroy = [](EventHandle event) -> ResultCode {
    const Lock lock(world().mutex);
    delete event;
    return leave();
  };
  api.module_load_data = [](ModuleHandle* module, const void* image) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (!image) return invalid_value;
    if (!world().options.kernels_load) return not_supported;
    *module = new ModuleOfDriver;
    ++world().objects;
    return success;
  };
  api.module_unload = [](ModuleHandle module) -> ResultCode {
    const Lock lock(world().mutex);
    delete module;
    return leave();
  };
  api.module_get_function = [](FunctionHandle* function, ModuleHandle,
                               const char* name) -> ResultCode {
    TERRACE_FAKE_ENTER();
    const auto added = world().kernels.find(name);
    *function = std::string(name) == storage::hash_kernel_name ? &world().hash_kernel
                : added != world().kernels.end()               ? &added->second
                                                               : &world().other_kernel;
    return success;
  };
  api.launch_kernel = [](FunctionHandle function, unsigned grid_x, unsigned grid_y, unsigned,
                         unsigned block_x, unsigned, unsigned, unsigned, StreamHandle stream,
                         void** parameters, void**) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (function == &world().other_kernel) return success;
    if (grid_x == 0 || grid_y == 0 || block_x == 0) return invalid_value;
    if (function->run) {
      const auto* const bytes = static_cast<const std::byte*>(parameters[0]);
      std::vector<std::byte> arguments(bytes, bytes + function->argument_bytes);
      ++world().launches;
      return put_work(stream, [function, arguments = std::move(arguments),
                               launch = Launch{grid_x, grid_y, block_x}] {
        function->run(launch, arguments.data());
      });
    }
    const auto payload = *static_cast<DeviceAddress*>(parameters[0]);
    const auto bytes = *static_cast<std::uint64_t*>(parameters[1]);
    const auto digests = *static_cast<DeviceAddress*>(parameters[2]);
    const std::uint64_t pieces =
        (bytes + storage::hash_piece_bytes - 1) / storage::hash_piece_bytes;
    if (!resolve(payload, bytes) || !resolve(digests, pieces * 8)) return invalid_value;
    ++world().launches;
    const std::uint64_t warps =
        static_cast<std::uint64_t>(grid_x) * block_x / storage::warp_hash::warp_threads;
    put(stream, {[=] {
          hash_pieces(resolve(payload, bytes), bytes,
                      reinterpret_cast<std::uint64_t*>(resolve(digests, pieces * 8)), warps);
          return success;
        }});
    return success;
  };
  api.stream_begin_capture = [](StreamHandle stream, int) -> ResultCode {
    TERRACE_FAKE_ENTER();
    if (stream->captured) return not_while_capturing;
    stream->captured = new GraphOfDriver;
    ++world().objects;
    ++world().captures;
    return success;
  };
  api.stream_end_capture = [](StreamHandle stream, GraphHandle* graph) -> ResultCode {
    const Lock lock(world().mutex);
    if (!stream->captured) return invalid_value;
    *graph = std::exchange(stream->captured, nullptr);
    --world().captures;
    return success;
  };
  api.graph_instantiate = [](GraphExecHandle* executable, GraphHandle graph,
                             unsigned long long) -> ResultCode {
    TERRACE_FAKE_ENTER();
    *executable = new GraphExecOfDriver{graph->steps};
    ++world().objects;
    return success;
  };
  api.graph_launch = [](GraphExecHandle executable, StreamHandle stream) -> ResultCode {
    TERRACE_FAKE_ENTER();
    ++world().graph_launches;
    for (const StreamOfDriver::Step& step : executable->steps) put(stream, step);
    return success;
  };
  api.graph_destroy = [](GraphHandle graph) -> ResultCode {
    const Lock lock(world().mutex);
    delete graph;
    return leave();
  };
  api.graph_exec_destroy = [](GraphExecHandle executable) -> ResultCode {
    const Lock lock(world().mutex);
    delete executable;
    return leave();
  };
  return api;
}

}  // namespace

void reset(const Options& options) {
  World& w = world();
  const Lock lock(w.mutex);
  w.options = options;
  w.fail_in = w.break_in = -1;
  w.has_failed = w.is_broken = false;
  w.launches = w.graph_launches = 0;
}

DriverApi api() { return make_api(); }

void fail_call(std::int64_t nth, ResultCode code) {
  const Lock lock(world().mutex);
  world().fail_in = nth;
  world().fail_code = code;
  world().has_failed = false;
}

bool failed() {
  const Lock lock(world().mutex);
  return world().has_failed;
}

void break_device_at_copy(std::int64_t nth) {
  const Lock lock(world().mutex);
  world().break_in = nth;
}

std::size_t live_objects() {
  const Lock lock(world().mutex);
  return world().objects;
}

std::size_t registered_bytes() {
  const Lock lock(world().mutex);
  std::size_t bytes = 0;
  for (const auto& [memory, size] : world().registered) bytes += size;
  return bytes;
}

std::size_t kernel_launches() {
  const Lock lock(world().mutex);
  return world().launches;
}

void add_kernel(const std::string& name, std::size_t argument_bytes,
                std::function<void(const Launch&, const void*)> run) {
  const Lock lock(world().mutex);
  world().kernels[name] = {argument_bytes, std::move(run)};
}

ResultCode put_work(StreamHandle stream, std::function<void()> work) {
  const Lock lock(world().mutex);
  put(stream, {[work = std::move(work)] {
        const KernelRun run;
        work();
        return success;
      }});
  return success;
}

std::size_t graph_launches() {
  const Lock lock(world().mutex);
  return world().graph_launches;
}

std::size_t allocated_bytes() {
  const Lock lock(world().mutex);
  return world().allocated;
}

std::byte* behind(DeviceAddress address) {
  const Lock lock(world().mutex);
  return resolve(address, 1);
}

}  // namespace fake
}  // namespace terrace::cuda

// As in the driver. TERRACE_FAKE_CUDA_DEVICES says how many devices it shows.
extern "C" int cuGetProcAddress_v2(const char* symbol, void** function, int version,
                                   unsigned long long flags, int* result);
extern "C" int cuGetProcAddress_v2(const char* symbol, void** function, int, unsigned long long,
                                   int*) {
  using terrace::cuda::DriverApi;
  static const DriverApi api = [] {
    terrace::cuda::fake::Options options;
    options.memory_bytes = std::size_t{4} << 30;  // for programs with a default arena and a model
    if (const char* devices = std::getenv("TERRACE_FAKE_CUDA_DEVICES"))
      options.devices = std::atoi(devices);
    terrace::cuda::fake::reset(options);
    return terrace::cuda::fake::api();
  }();
  static const std::map<std::string, void*> functions = {
#define TERRACE_FAKE_ENTRY(name, member) {name, reinterpret_cast<void*>(api.member)}
      TERRACE_FAKE_ENTRY("cuInit", init),
      TERRACE_FAKE_ENTRY("cuDriverGetVersion", driver_get_version),
      TERRACE_FAKE_ENTRY("cuGetErrorName", get_error_name),
      TERRACE_FAKE_ENTRY("cuGetErrorString", get_error_string),
      TERRACE_FAKE_ENTRY("cuDeviceGet", device_get),
      TERRACE_FAKE_ENTRY("cuDeviceGetCount", device_get_count),
      TERRACE_FAKE_ENTRY("cuDeviceGetName", device_get_name),
      TERRACE_FAKE_ENTRY("cuDeviceGetUuid", device_get_uuid),
      TERRACE_FAKE_ENTRY("cuDeviceGetAttribute", device_get_attribute),
      TERRACE_FAKE_ENTRY("cuDevicePrimaryCtxSetFlags", primary_context_set_flags),
      TERRACE_FAKE_ENTRY("cuDevicePrimaryCtxRetain", primary_context_retain),
      TERRACE_FAKE_ENTRY("cuDevicePrimaryCtxRelease", primary_context_release),
      TERRACE_FAKE_ENTRY("cuCtxSetCurrent", context_set_current),
      TERRACE_FAKE_ENTRY("cuMemGetInfo", mem_get_info),
      TERRACE_FAKE_ENTRY("cuMemGetAllocationGranularity", mem_get_allocation_granularity),
      TERRACE_FAKE_ENTRY("cuMemCreate", mem_create),
      TERRACE_FAKE_ENTRY("cuMemRelease", mem_release),
      TERRACE_FAKE_ENTRY("cuMemAddressReserve", mem_address_reserve),
      TERRACE_FAKE_ENTRY("cuMemAddressFree", mem_address_free),
      TERRACE_FAKE_ENTRY("cuMemMap", mem_map),
      TERRACE_FAKE_ENTRY("cuMemUnmap", mem_unmap),
      TERRACE_FAKE_ENTRY("cuMemSetAccess", mem_set_access),
      TERRACE_FAKE_ENTRY("cuMemExportToShareableHandle", mem_export_to_shareable_handle),
      TERRACE_FAKE_ENTRY("cuMemImportFromShareableHandle", mem_import_from_shareable_handle),
      TERRACE_FAKE_ENTRY("cuMemHostRegister", mem_host_register),
      TERRACE_FAKE_ENTRY("cuMemHostUnregister", mem_host_unregister),
      TERRACE_FAKE_ENTRY("cuMemHostAlloc", mem_host_alloc),
      TERRACE_FAKE_ENTRY("cuMemFreeHost", mem_free_host),
      TERRACE_FAKE_ENTRY("cuMemAlloc", mem_alloc),
      TERRACE_FAKE_ENTRY("cuMemFree", mem_free),
      TERRACE_FAKE_ENTRY("cuMemcpyHtoDAsync", memcpy_host_to_device_async),
      TERRACE_FAKE_ENTRY("cuMemcpyDtoHAsync", memcpy_device_to_host_async),
      TERRACE_FAKE_ENTRY("cuMemcpyDtoDAsync", memcpy_device_to_device_async),
      TERRACE_FAKE_ENTRY("cuStreamCreate", stream_create),
      TERRACE_FAKE_ENTRY("cuStreamDestroy", stream_destroy),
      TERRACE_FAKE_ENTRY("cuStreamSynchronize", stream_synchronize),
      TERRACE_FAKE_ENTRY("cuEventCreate", event_create),
      TERRACE_FAKE_ENTRY("cuEventRecord", event_record),
      TERRACE_FAKE_ENTRY("cuEventSynchronize", event_synchronize),
      TERRACE_FAKE_ENTRY("cuEventElapsedTime", event_elapsed_time),
      TERRACE_FAKE_ENTRY("cuEventDestroy", event_destroy),
      TERRACE_FAKE_ENTRY("cuModuleLoadData", module_load_data),
      TERRACE_FAKE_ENTRY("cuModuleUnload", module_unload),
      TERRACE_FAKE_ENTRY("cuModuleGetFunction", module_get_function),
      TERRACE_FAKE_ENTRY("cuLaunchKernel", launch_kernel),
      TERRACE_FAKE_ENTRY("cuMemsetD8Async", memset_async),
      TERRACE_FAKE_ENTRY("cuStreamBeginCapture", stream_begin_capture),
      TERRACE_FAKE_ENTRY("cuStreamEndCapture", stream_end_capture),
      TERRACE_FAKE_ENTRY("cuGraphInstantiateWithFlags", graph_instantiate),
      TERRACE_FAKE_ENTRY("cuGraphLaunch", graph_launch),
      TERRACE_FAKE_ENTRY("cuGraphDestroy", graph_destroy),
      TERRACE_FAKE_ENTRY("cuGraphExecDestroy", graph_exec_destroy),
#undef TERRACE_FAKE_ENTRY
  };
  const auto found = functions.find(symbol);
  *function = found == functions.end() ? nullptr : found->second;
  return *function ? terrace::cuda::success : 500;
}
