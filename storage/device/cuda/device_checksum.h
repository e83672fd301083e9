// Launches the checksum's kernel.
#pragma once

#include <memory>

#include "core/cuda/device.h"
#include "core/status.h"
#include "storage/device/cuda/checksum_kernel.h"

namespace terrace::storage {

// Any thread. The device must outlive it.
class DeviceChecksum {
 public:
  // unavailable if `image` is empty, else what the driver says of it: an image that is newer than
  // the driver does not load.
  static Result<std::unique_ptr<DeviceChecksum>> load(const cuda::Device& device,
                                                      const KernelImage& image);
  ~DeviceChecksum();
  DeviceChecksum(const DeviceChecksum&) = delete;
  DeviceChecksum& operator=(const DeviceChecksum&) = delete;

  // Whether the kernel can hash a payload of this place and size; blocks of real models can be.
  static bool can_hash(cuda::DeviceAddress payload, std::size_t bytes);
  static std::size_t pieces(std::size_t bytes) {
    return (bytes + hash_piece_bytes - 1) / hash_piece_bytes;
  }
  // Puts the digest of each piece into `digests`, in device memory, once `stream` gets there. The
  // payload's checksum is the XXH3-64 of all of them.
  Status start(cuda::DeviceAddress payload, std::size_t bytes, cuda::DeviceAddress digests,
               cuda::StreamHandle stream) const;

 private:
  explicit DeviceChecksum(const cuda::Device& device) : device_(device) {}

  const cuda::Device& device_;
  cuda::ModuleHandle module_ = nullptr;
  cuda::FunctionHandle function_ = nullptr;
};

}  // namespace terrace::storage
