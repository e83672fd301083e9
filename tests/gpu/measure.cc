#include "tests/gpu/measure.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>

#include "core/checksum.h"
#include "tests/gpu/read_blocks.h"
#include "tests/storage/cuda/accelerator_check.h"

namespace terrace::gpu {
namespace {

constexpr int rounds = 5;

using Steady = std::chrono::steady_clock;

double gb_per_s(std::size_t bytes, Steady::duration taken) {
  return static_cast<double>(bytes) / std::chrono::duration<double, std::nano>(taken).count();
}

cuda::DeviceAddress address_of(const std::byte* at) {
  return reinterpret_cast<cuda::DeviceAddress>(at);
}

// A stream, two events with times, and a little device memory.
class Session {
 public:
  explicit Session(const cuda::Device& device) : api(device.api()) {}
  ~Session() {
    if (begin) (void)api.event_destroy(begin);
    if (end) (void)api.event_destroy(end);
    if (module) (void)api.module_unload(module);
    if (stream) (void)api.stream_destroy(stream);
    if (memory) (void)api.mem_free(memory);
  }
  Status open(std::size_t memory_bytes) {
    if (const auto code = api.stream_create(&stream, cuda::stream_non_blocking))
      return cuda::to_status(api, code, "stream");
    if (const auto code = api.event_create(&begin, 0)) return cuda::to_status(api, code, "event");
    if (const auto code = api.event_create(&end, 0)) return cuda::to_status(api, code, "event");
    if (memory_bytes == 0) return {};
    return cuda::to_status(api, api.mem_alloc(&memory, memory_bytes), "device memory");
  }

  const cuda::DriverApi& api;
  cuda::StreamHandle stream = nullptr;
  cuda::EventHandle begin = nullptr, end = nullptr;
  cuda::ModuleHandle module = nullptr;
  cuda::DeviceAddress memory = 0;
};

}  // namespace

Result<CopyRate> measure_copies(const cuda::Device& device, storage::Accelerator& accelerator,
                                storage::DeviceMemory& memory, bool to_device,
                                std::size_t block_bytes, std::size_t total_bytes) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  const std::size_t blocks = std::min(total_bytes, memory.size()) / block_bytes;
  const std::size_t bytes = blocks * block_bytes;
  auto host = storage::random_bytes(bytes + 4096, 1);
  std::byte* const aligned = host.data() + (4096 - address_of(host.data()) % 4096) % 4096;
  if (Status status = accelerator.register_host_memory({aligned, bytes}); !status.ok())
    return error(std::move(status));
  Session session(device);
  Status status = session.open(0);
  CopyRate rate;
  {
    storage::CompletionWaiter waiter(accelerator);
    for (int round = 0; round < rounds && status.ok(); ++round) {
      auto begin = Steady::now();
      for (std::size_t i = 0; i < blocks; ++i) {
        std::byte* const there = memory.data() + i * block_bytes;
        std::byte* const here = aligned + i * block_bytes;
        std::byte* const to = to_device ? there : here;
        const std::byte* const from = to_device ? here : there;
        accelerator.copy_async(i, to, {from, block_bytes});
      }
      for (const auto& [ticket, done] : waiter.wait(blocks))
        if (!done.status.ok()) status = done.status;
      rate.terrace_gb_s = std::max(rate.terrace_gb_s, gb_per_s(bytes, Steady::now() - begin));

      begin = Steady::now();
      for (std::size_t i = 0; i < blocks && status.ok(); ++i) {
        const auto there = address_of(memory.data()) + i * block_bytes;
        std::byte* const here = aligned + i * block_bytes;
        const auto code =
            to_device
                ? session.api.memcpy_host_to_device_async(there, here, block_bytes, session.stream)
                : session.api.memcpy_device_to_host_async(here, there, block_bytes, session.stream);
        status = cuda::to_status(session.api, code, "copy");
      }
      const auto code = session.api.stream_synchronize(session.stream);
      if (status.ok()) status = cuda::to_status(session.api, code, "copies");
      rate.floor_gb_s = std::max(rate.floor_gb_s, gb_per_s(bytes, Steady::now() - begin));
    }
  }
  accelerator.unregister_host_memory({aligned, bytes});
  if (!status.ok()) return error(std::move(status));
  return rate;
}

Result<double> measure_checks_gb_s(storage::Accelerator& accelerator, storage::DeviceMemory& memory,
                                   std::size_t block_bytes, std::size_t total_bytes) {
  const std::size_t blocks = std::min(total_bytes, memory.size()) / block_bytes;
  storage::CompletionWaiter waiter(accelerator);
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Steady::now();
    for (std::size_t i = 0; i < blocks; ++i)
      accelerator.checksum_async(i, {memory.data() + i * block_bytes, block_bytes});
    for (const auto& [ticket, done] : waiter.wait(blocks))
      if (!done.status.ok()) return error(done.status);
    best = std::max(best, gb_per_s(blocks * block_bytes, Steady::now() - begin));
  }
  return best;
}

Result<ReadRate> measure_reads(const cuda::Device& device, storage::DeviceMemory& memory,
                               std::size_t block_bytes, std::size_t total_bytes) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  const std::size_t places = memory.size() / block_bytes;
  const std::size_t blocks = std::min(places, total_bytes / block_bytes);
  const std::size_t table_bytes = blocks * sizeof(std::uint64_t);
  Session session(device);
  const cuda::DriverApi& api = session.api;
  if (Status status = session.open(table_bytes + read_threads_per_block * sizeof(std::uint64_t));
      !status.ok())
    return error(std::move(status));
  cuda::FunctionHandle function = nullptr;
  if (const auto code = api.module_load_data(&session.module, read_blocks_image().data))
    return error(cuda::to_status(api, code, "could not load the reading kernel"));
  if (const auto code = api.module_get_function(&function, session.module, read_kernel_name))
    return error(cuda::to_status(api, code, "could not find the reading kernel"));

  std::vector<std::uint64_t> order(places);
  for (std::size_t i = 0; i < places; ++i) order[i] = i;
  std::mt19937_64 random(1);
  const auto read = [&]() -> Result<double> {
    std::vector<std::uint64_t> table(blocks);
    for (std::size_t i = 0; i < blocks; ++i)
      table[i] = address_of(memory.data()) + order[i] * block_bytes;
    auto code =
        api.memcpy_host_to_device_async(session.memory, table.data(), table_bytes, session.stream);
    double best = 0;
    for (int round = 0; round < rounds && code == cuda::success; ++round) {
      cuda::DeviceAddress addresses = session.memory, sums = session.memory + table_bytes;
      std::uint64_t bytes = block_bytes;
      void* parameters[] = {&addresses, &bytes, &sums};
      code = api.event_record(session.begin, session.stream);
      if (code == cuda::success)
        code =
            api.launch_kernel(function, static_cast<unsigned>(blocks), 1, 1, read_threads_per_block,
                              1, 1, 0, session.stream, parameters, nullptr);
      if (code == cuda::success) code = api.event_record(session.end, session.stream);
      if (code == cuda::success) code = api.event_synchronize(session.end);
      float ms = 0;
      if (code == cuda::success) code = api.event_elapsed_time(&ms, session.begin, session.end);
      if (ms > 0)
        best = std::max(best, static_cast<double>(blocks * block_bytes) / (1e6 * double{ms}));
    }
    const auto waited = api.stream_synchronize(session.stream);
    if (code == cuda::success) code = waited;
    if (code != cuda::success) return error(cuda::to_status(api, code, "reading blocks failed"));
    return best;
  };

  ReadRate rate;
  rate.block_bytes = block_bytes;
  auto contiguous = read();
  if (!contiguous) return error(contiguous.error());
  rate.contiguous_gb_s = *contiguous;
  std::ranges::shuffle(order, random);
  auto scattered = read();
  if (!scattered) return error(scattered.error());
  rate.scattered_gb_s = *scattered;
  return rate;
}

}  // namespace terrace::gpu
