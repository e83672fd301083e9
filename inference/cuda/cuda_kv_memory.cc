#include "inference/cuda/cuda_kv_memory.h"

#include <algorithm>
#include <utility>

#include "core/bytes.h"
#include "inference/cuda/kernels/kernel_args.h"

namespace terrace::inference::gpu {

namespace {
constexpr std::size_t slab_bytes = 64 * mib;
constexpr std::size_t block_alignment = 4 * kib;

cuda::DeviceAddress address_of(const std::byte* block) {
  return reinterpret_cast<cuda::DeviceAddress>(block);
}
}  // namespace

Result<std::unique_ptr<CudaKvMemory>> CudaKvMemory::create(const CudaRuntime& runtime,
                                                           const Kernels& kernels) {
  auto stream = Stream::create(*runtime.device);
  if (!stream) return error(stream.error());
  return std::unique_ptr<CudaKvMemory>(new CudaKvMemory(runtime, kernels, std::move(*stream)));
}

Result<std::shared_ptr<std::byte>> CudaKvMemory::allocate(std::size_t bytes) {
  const std::size_t rounded = round_up(bytes, block_alignment);
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& free = free_[rounded];
    if (free.empty()) {
      if (Status status = take_slab(rounded, free); !status.ok()) return error(std::move(status));
    }
    block = free.back();
    free.pop_back();
  }
  std::shared_ptr<std::byte> owned(block, [this, rounded](std::byte* freed) {
    const std::lock_guard lock(mutex_);
    free_[rounded].push_back(freed);
  });
  if (Status status = zero(block, bytes); !status.ok()) return error(std::move(status));
  return owned;
}

// A whole slab, or at the end of the device's memory what one block needs.
Status CudaKvMemory::take_slab(std::size_t block_bytes, std::vector<std::byte*>& free) {
  const std::size_t whole = std::max(slab_bytes / block_bytes, std::size_t{1}) * block_bytes;
  auto slab = DeviceBuffer::allocate(*runtime_.device, whole, "KV blocks");
  if (!slab && whole > block_bytes)
    slab = DeviceBuffer::allocate(*runtime_.device, block_bytes, "a KV block");
  if (!slab) return slab.error();
  auto* const begin = reinterpret_cast<std::byte*>(slab->address());
  for (std::size_t at = slab->size(); at > 0; at -= block_bytes)
    free.push_back(begin + at - block_bytes);
  slabs_.push_back(std::move(*slab));
  return {};
}

Status CudaKvMemory::zero(std::byte* block, std::size_t bytes) {
  if (Status status = runtime_.device->make_current(); !status.ok()) return status;
  const cuda::DriverApi& api = runtime_.device->api();
  const std::lock_guard lock(mutex_);
  if (const auto code = api.memset_async(address_of(block), 0, bytes, stream_.handle()))
    return cuda::to_status(api, code, "could not clear a KV block");
  return stream_.wait();
}

Status CudaKvMemory::copy_leading_tokens(const KvGeometry& geometry, std::uint32_t tokens,
                                         const std::byte* from, std::byte* to) {
  if (tokens == 0) return {};
  if (Status status = runtime_.device->make_current(); !status.ok()) return status;
  CopyTokensArgs args{};
  args.from = reinterpret_cast<const std::uint32_t*>(from);
  args.to = reinterpret_cast<std::uint32_t*>(to);
  args.tokens = tokens;
  args.chunks_copied = (tokens + chunk_tokens - 1) / chunk_tokens;
  args.chunks_per_block = geometry.chunks();
  args.kv_heads = geometry.kv_heads;
  args.padded_dim = geometry.padded_head_dim();
  const std::lock_guard lock(mutex_);
  if (Status status = kernels_.launch(kernels_.copy_tokens,
                                      geometry.layers * args.kv_heads * args.chunks_copied, 2,
                                      row_threads, args, stream_.handle());
      !status.ok())
    return status;
  return stream_.wait();
}

}  // namespace terrace::inference::gpu
