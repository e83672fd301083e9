// gpu_storage_check: the storage library on a real GPU. The checks that the tests make over a
// stand-in for the driver, sharing memory with a second process, and measurements. Progress goes to
// standard error, one JSON line to standard output. Status 77: there is no GPU to check with.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/checksum.h"
#include "core/clock.h"
#include "core/cuda/shared_device_memory.h"
#include "storage/device/cuda/cuda_accelerator.h"
#include "storage/tiered_cache.h"
#include "tests/gpu/measure.h"
#include "tests/storage/cuda/accelerator_check.h"

namespace terrace::gpu {
namespace {

using nlohmann::ordered_json;

constexpr int status_skipped = 77;
constexpr std::size_t shared_bytes = 4 * mib;
constexpr std::size_t model_block_bytes = 720 * kib;

struct Sizes {
  std::size_t arena_bytes, copied_bytes, read_bytes;
};
// Well above what a GPU's TLBs reach, where its memory allows; and a run that a stand-in can take.
constexpr Sizes full{48 * gib, 1 * gib, 8 * gib};
constexpr Sizes quick{64 * mib, 16 * mib, 16 * mib};

Status wrong(const std::string& what) { return {StatusCode::internal, what}; }

void say(const std::string& line) { std::fprintf(stderr, "== %s\n", line.c_str()); }

// Copies `bytes` of this process to a device address, or the other way round, and waits.
Status copy_now(const cuda::Device& device, std::span<std::byte> host, cuda::DeviceAddress there,
                bool to_device) {
  const cuda::DriverApi& api = device.api();
  if (Status status = device.make_current(); !status.ok()) return status;
  cuda::StreamHandle stream = nullptr;
  if (const auto code = api.stream_create(&stream, cuda::stream_non_blocking))
    return cuda::to_status(api, code, "stream");
  auto code = to_device ? api.memcpy_host_to_device_async(there, host.data(), host.size(), stream)
                        : api.memcpy_device_to_host_async(host.data(), there, host.size(), stream);
  const auto waited = api.stream_synchronize(stream);
  (void)api.stream_destroy(stream);
  if (code == cuda::success) code = waited;
  return cuda::to_status(api, code, "copy");
}

// The second process: imports what the first exported, reads what that wrote, writes something
// else.
Status be_the_second_process(const cuda::DriverApi& api, int ordinal, int fd) {
  auto device = cuda::Device::open(api, ordinal);
  if (!device) return device.error();
  auto memory = cuda::SharedDeviceMemory::import(**device, fd, shared_bytes);
  if (!memory) return memory.error();
  std::vector<std::byte> found(shared_bytes);
  if (Status status = copy_now(**device, found, memory->address(), false); !status.ok())
    return status;
  if (found != storage::random_bytes(shared_bytes, 1))
    return wrong("another process's bytes differ");
  auto answer = storage::random_bytes(shared_bytes, 2);
  return copy_now(**device, answer, memory->address(), true);
}

Status check_sharing(const char* program, const cuda::Device& device, int ordinal,
                     storage::Accelerator& accelerator) {
  auto memory = accelerator.allocate(shared_bytes);
  if (!memory) return memory.error();
  const auto there = reinterpret_cast<cuda::DeviceAddress>((*memory)->data());
  auto bytes = storage::random_bytes(shared_bytes, 1);
  if (Status status = copy_now(device, bytes, there, true); !status.ok()) return status;
  const std::string fd = std::to_string((*memory)->exported_fd()), index = std::to_string(ordinal);
  const pid_t child = ::fork();
  if (child == 0) {
    ::fcntl((*memory)->exported_fd(), F_SETFD, 0);
    ::execl(program, program, "--second-process", fd.c_str(), index.c_str(), nullptr);
    std::_Exit(127);
  }
  int status = -1;
  if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
      WEXITSTATUS(status) != 0)
    return wrong("the second process failed");
  if (Status copied = copy_now(device, bytes, there, false); !copied.ok()) return copied;
  if (bytes != storage::random_bytes(shared_bytes, 2))
    return wrong("what the second process wrote is not there");

  // Memory is in use until the last one who maps it lets go: what the next daemon counts on.
  auto before = device.free_bytes();
  auto imported =
      cuda::SharedDeviceMemory::import(device, (*memory)->exported_fd(), (*memory)->size());
  if (!imported) return imported.error();
  *memory = nullptr;
  std::vector<std::byte> still(shared_bytes);
  if (Status copied = copy_now(device, still, imported->address(), false); !copied.ok())
    return copied;
  if (still != bytes) return wrong("memory changed although it is still mapped");
  return before ? Status() : before.error();
}

Status check_errors(const cuda::DriverApi& api, const cuda::Device& device,
                    storage::Accelerator& accelerator) {
  const auto free = accelerator.available_bytes();
  if (!free) return free.error();
  const auto too_much = accelerator.allocate(*free + 64 * gib);
  if (too_much || too_much.error().code() != StatusCode::no_space)
    return wrong("more memory than there is was not refused as no_space");
  const auto nowhere = storage::CudaAccelerator::open(api, 1000);
  if (nowhere || nowhere.error().code() != StatusCode::unavailable)
    return wrong("a device that is not there was not refused as unavailable");
  const UniqueFd no_memory(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (cuda::SharedDeviceMemory::import(device, no_memory.get(), shared_bytes))
    return wrong("something else was imported as device memory");
  return {};
}

// Blocks go from the device to the host tier, and come back when they are asked for.
Status check_cache(storage::CudaAccelerator& accelerator, const cuda::Device& device) {
  constexpr std::uint64_t block = model_block_bytes;
  constexpr std::size_t blocks = 8;
  SystemClock clock;
  storage::CacheOptions options;
  options.device_capacity_bytes = 16 * mib;
  options.host_capacity_bytes = 64 * mib;
  options.slab_bytes = 16 * mib;
  options.clean_fraction = 1;
  auto cache = storage::TieredCache::create(options, accelerator, nullptr, clock);
  if (!cache) return cache.error();
  if (!(*cache)->host_registration().ok()) return (*cache)->host_registration();
  auto arena = cuda::SharedDeviceMemory::import(device, (*cache)->device_arena_fd(),
                                                (*cache)->device_arena_bytes());
  if (!arena) return arena.error();
  SpaceDescriptor descriptor;
  descriptor.numerics_id = "gpu-check";
  descriptor.kv_dtype = "bf16";
  descriptor.layout_id = "token-major";
  descriptor.block_bytes = block;
  auto space = (*cache)->open_space(descriptor);
  if (!space) return space.error();
  const auto tokens_of = [&](std::size_t prompt) {
    return std::vector<Token>(descriptor.block_tokens, static_cast<Token>(prompt));
  };
  // Twice as many prompts of one block as the device holds.
  constexpr std::size_t prompts = 4 * blocks;
  for (std::size_t i = 0; i < prompts; ++i) {
    const storage::SessionId session = (*cache)->open_session();
    std::vector<storage::SlotOffset> slots;
    while (slots.empty()) {
      slots = (*cache)->reserve(session, 1, *space, {}, 1);
      accelerator.synchronize();
      (*cache)->run_completions();
    }
    auto bytes = storage::random_bytes(block, i);
    if (Status status = copy_now(device, bytes, arena->address() + slots[0], true); !status.ok())
      return status;
    storage::SealRequest seal{slots[0], descriptor.digest(), tokens_of(i), payload_checksum(bytes)};
    if ((*cache)->seal(session, 1, {&seal, 1})[0] != storage::SealOutcome::sealed)
      return wrong("a block was not sealed");
    (*cache)->end_session(session);
  }
  const storage::SessionId reader = (*cache)->open_session();
  for (std::size_t i = 0; i < prompts; ++i) {
    const BlockKey key = derive_block_key(descriptor.digest(), tokens_of(i));
    bool done = false;
    std::vector<storage::AcquiredBlock> got;
    (*cache)->acquire(reader, 1, *space, {&key, 1}, {}, [&](auto found) {
      got = std::move(found);
      done = true;
    });
    while (!done) {
      accelerator.synchronize();
      (*cache)->run_completions();
    }
    if (got.size() != 1) return wrong("a block was lost on its way through the host tier");
    std::vector<std::byte> bytes(block);
    if (Status status = copy_now(device, bytes, arena->address() + got[0].slot, false);
        !status.ok())
      return status;
    if (bytes != storage::random_bytes(block, i)) return wrong("the cache gave wrong bytes");
    (*cache)->release(reader, 1);
  }
  if ((*cache)->stats().tiers[1].promotions == 0) return wrong("nothing came from the host tier");
  return (*cache)->check_invariants();
}

Status run(const char* program, const Sizes& sizes, const cuda::DriverApi& api, int ordinal) {
  auto accelerator = storage::CudaAccelerator::open(api, ordinal);
  if (!accelerator) return accelerator.error();
  auto device = cuda::Device::open(api, ordinal);
  if (!device) return device.error();
  int driver_version = 0;
  (void)api.driver_get_version(&driver_version);
  ordered_json report = {
      {"check", "storage"},         {"device", (*device)->name()},
      {"driver", driver_version},   {"build_type", TERRACE_BUILD_TYPE},
      {"version", TERRACE_VERSION}, {"checksum_kernel", (*accelerator)->kernel_status().ok()}};
  say("checking on " + (*device)->name());
  if (!(*accelerator)->kernel_status().ok())
    say("no kernel: " + (*accelerator)->kernel_status().message());

  const auto step = [](const char* what, const Status& status) {
    say(std::string(what) + ": " + status.to_string());
    return status.with_context(what);
  };
  {
    auto memory = (*accelerator)->allocate(32 * mib);
    if (!memory) return memory.error();
    if (Status status = step("copies and checks", check_accelerator(**accelerator, **memory));
        !status.ok())
      return status;
    auto without = storage::CudaAccelerator::open(api, ordinal, {});
    if (!without) return without.error();
    auto other = (*without)->allocate(32 * mib);
    if (!other) return other.error();
    if (Status status = step("the same without a kernel", check_accelerator(**without, **other));
        !status.ok())
      return status;
  }
  if (Status status =
          step("a second process", check_sharing(program, **device, ordinal, **accelerator));
      !status.ok())
    return status;
  if (Status status = step("errors", check_errors(api, **device, **accelerator)); !status.ok())
    return status;
  if (Status status = step("the cache", check_cache(**accelerator, **device)); !status.ok())
    return status;

  const auto free = (*accelerator)->available_bytes();
  if (!free) return free.error();
  auto arena = (*accelerator)->allocate(std::min<std::uint64_t>(sizes.arena_bytes, *free / 4 * 3));
  if (!arena) return arena.error();
  report["arena_bytes"] = (*arena)->size();
  for (const bool to_device : {true, false}) {
    const auto rate = measure_copies(**device, **accelerator, **arena, to_device, model_block_bytes,
                                     sizes.copied_bytes);
    if (!rate) return rate.error();
    const char* name = to_device ? "host_to_device" : "device_to_host";
    report[name] = {{"gb_s", rate->terrace_gb_s}, {"floor_gb_s", rate->floor_gb_s}};
    say(name);
  }
  const auto checks =
      measure_checks_gb_s(**accelerator, **arena, model_block_bytes, sizes.copied_bytes);
  if (!checks) return checks.error();
  report["checks_gb_s"] = *checks;
  ordered_json reads = ordered_json::array();
  for (const std::size_t block_bytes : {4 * kib, 64 * kib, 256 * kib, model_block_bytes, 2 * mib}) {
    const auto rate = measure_reads(**device, **arena, block_bytes, sizes.read_bytes);
    if (!rate) return rate.error();
    reads.push_back({{"block_bytes", rate->block_bytes},
                     {"contiguous_gb_s", rate->contiguous_gb_s},
                     {"scattered_gb_s", rate->scattered_gb_s}});
  }
  report["block_reads"] = reads;
  std::printf("%s\n", report.dump().c_str());
  return {};
}

int main_of(int argc, char** argv) {
  const auto driver = cuda::load_driver();
  if (!driver) {
    std::fprintf(stderr, "gpu_storage_check: skipped: %s\n", driver.error().message().c_str());
    return status_skipped;
  }
  const std::string option = argc > 1 ? argv[1] : "";
  if (option == "--second-process" && argc == 4) {
    const Status status = be_the_second_process(**driver, std::atoi(argv[3]), std::atoi(argv[2]));
    if (!status.ok()) std::fprintf(stderr, "second process: %s\n", status.to_string().c_str());
    return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  const Status status = run("/proc/self/exe", option == "--quick" ? quick : full, **driver, 0);
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "gpu_storage_check: %s\n", status.to_string().c_str());
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace terrace::gpu

int main(int argc, char** argv) { return terrace::gpu::main_of(argc, argv); }
