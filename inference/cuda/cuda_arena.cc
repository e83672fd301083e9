#include "inference/cuda/cuda_arena.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/checksum.h"
#include "core/cuda/shared_device_memory.h"
#include "inference/cuda/device_buffer.h"

namespace terrace::inference::gpu {

namespace {

// What of a block is on its way to the CPU at a time, to be hashed there.
constexpr std::size_t fetched_arena_bytes = 64 * checksum_piece_bytes;

class CudaArena final : public client::ArenaMemory {
 public:
  CudaArena(std::shared_ptr<const CudaRuntime> runtime, cuda::SharedDeviceMemory memory,
            Stream stream, PinnedBuffer fetched)
      : runtime_(std::move(runtime)),
        memory_(std::move(memory)),
        stream_(std::move(stream)),
        fetched_(std::move(fetched)) {}

  std::byte* data() const override { return reinterpret_cast<std::byte*>(memory_.address()); }
  std::uint64_t size() const override { return memory_.size(); }

  Result<std::uint64_t> checksum(std::span<const std::byte> payload) const override {
    if (Status status = runtime_->device->make_current(); !status.ok())
      return error(std::move(status));
    const cuda::DriverApi& api = runtime_->device->api();
    std::vector<std::uint64_t> digests;
    while (!payload.empty()) {
      const auto part = payload.first(std::min(payload.size(), fetched_arena_bytes));
      payload = payload.subspan(part.size());
      if (const auto code = api.memcpy_device_to_host_async(
              fetched_.data(), reinterpret_cast<cuda::DeviceAddress>(part.data()), part.size(),
              stream_.handle()))
        return error(cuda::to_status(api, code, "could not fetch a block to hash it"));
      if (Status status = stream_.wait(); !status.ok()) return error(std::move(status));
      for (std::size_t at = 0; at < part.size(); at += checksum_piece_bytes)
        digests.push_back(
            xxh3({fetched_.data() + at, std::min(checksum_piece_bytes, part.size() - at)}));
    }
    return xxh3(std::as_bytes(std::span(digests)));
  }

 private:
  std::shared_ptr<const CudaRuntime> runtime_;
  cuda::SharedDeviceMemory memory_;
  Stream stream_;
  PinnedBuffer fetched_;
};

}  // namespace

Result<std::shared_ptr<const client::ArenaMemory>> CudaArenaImporter::import(
    int fd, std::uint64_t bytes, const std::string& device_uuid) {
  const cuda::Device& device = *runtime_->device;
  if (device_uuid != to_hex(device.uuid()))
    return error(StatusCode::failed_precondition,
                 "terraced's device arena is the memory of another GPU than " + device.name());
  auto memory = cuda::SharedDeviceMemory::import(device, fd, bytes);
  if (!memory) return error(memory.error());
  auto stream = Stream::create(device);
  if (!stream) return error(stream.error());
  auto fetched = PinnedBuffer::allocate(device, fetched_arena_bytes);
  if (!fetched) return error(fetched.error());
  return std::make_shared<const CudaArena>(runtime_, std::move(*memory), std::move(*stream),
                                           std::move(*fetched));
}

}  // namespace terrace::inference::gpu
