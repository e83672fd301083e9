// Memory of the device and page-locked memory of the machine, freed with their owner.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/cuda/device.h"
#include "core/status.h"

namespace terrace::inference::gpu {

// Aligned to 256 bytes at least. The device must outlive it. Movable.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // resource_exhausted, which names `use` and the bytes, if the device has not that much.
  static Result<DeviceBuffer> allocate(const cuda::Device& device, std::size_t bytes,
                                       std::string_view use);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  cuda::DeviceAddress address() const { return address_; }
  std::size_t size() const { return size_; }

 private:
  const cuda::Device* device_ = nullptr;
  cuda::DeviceAddress address_ = 0;
  std::size_t size_ = 0;
};

// Copies from and to it overlap with the CPU's work. The device must outlive it. Movable.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  static Result<PinnedBuffer> allocate(const cuda::Device& device, std::size_t bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const cuda::Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// A stream of the device, waited for and destroyed with its owner.
class Stream {
 public:
  static Result<Stream> create(const cuda::Device& device);
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;
  ~Stream();

  cuda::StreamHandle handle() const { return handle_; }
  // Everything put on it so far has been done, or has failed.
  Status wait() const;

 private:
  Stream(const cuda::Device& device, cuda::StreamHandle handle)
      : device_(&device), handle_(handle) {}
  const cuda::Device* device_;
  cuda::StreamHandle handle_;
};

}  // namespace terrace::inference::gpu
