#include "storage/device/cuda/device_checksum.h"

#include "core/checksum.h"
#include "storage/device/cuda/xxh3_warp.h"

namespace terrace::storage {

static_assert(hash_piece_bytes == checksum_piece_bytes);

Result<std::unique_ptr<DeviceChecksum>> DeviceChecksum::load(const cuda::Device& device,
                                                             const KernelImage& image) {
  if (image.bytes == 0)
    return error(StatusCode::unavailable, "built without the CUDA toolkit: no kernel");
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  std::unique_ptr<DeviceChecksum> checksum(new DeviceChecksum(device));
  const cuda::DriverApi& api = device.api();
  if (const cuda::ResultCode code = api.module_load_data(&checksum->module_, image.data);
      code != cuda::success)
    return error(cuda::to_status(api, code, "could not load the checksum's kernel"));
  if (const cuda::ResultCode code =
          api.module_get_function(&checksum->function_, checksum->module_, hash_kernel_name);
      code != cuda::success)
    return error(cuda::to_status(api, code, "could not find the checksum's kernel"));
  return checksum;
}

DeviceChecksum::~DeviceChecksum() {
  if (!module_) return;
  (void)device_.make_current();
  (void)device_.api().module_unload(module_);
}

bool DeviceChecksum::can_hash(cuda::DeviceAddress payload, std::size_t bytes) {
  const std::size_t last = bytes % hash_piece_bytes;
  return bytes > 0 && (last == 0 || last >= warp_hash::min_piece_bytes) &&
         bytes % warp_hash::piece_alignment_bytes == 0 &&
         payload % warp_hash::piece_alignment_bytes == 0;
}

Status DeviceChecksum::start(cuda::DeviceAddress payload, std::size_t bytes,
                             cuda::DeviceAddress digests, cuda::StreamHandle stream) const {
  const std::size_t threads = pieces(bytes) * warp_hash::warp_threads;
  const auto groups =
      static_cast<unsigned>((threads + hash_threads_per_group - 1) / hash_threads_per_group);
  std::uint64_t payload_bytes = bytes;
  void* parameters[] = {&payload, &payload_bytes, &digests};
  return cuda::to_status(
      device_.api(),
      device_.api().launch_kernel(function_, groups, 1, 1, hash_threads_per_group, 1, 1, 0, stream,
                                  parameters, nullptr),
      "could not launch the checksum's kernel");
}

}  // namespace terrace::storage
