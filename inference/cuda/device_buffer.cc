#include "inference/cuda/device_buffer.h"

#include <string>
#include <utility>

#include "core/bytes.h"

namespace terrace::inference::gpu {

Result<DeviceBuffer> DeviceBuffer::allocate(const cuda::Device& device, std::size_t bytes,
                                            std::string_view use) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  DeviceBuffer buffer;
  if (const auto code = device.api().mem_alloc(&buffer.address_, bytes)) {
    const std::string what = "could not have " + format_bytes(bytes) + " of memory of " +
                             device.name() + " for " + std::string(use);
    Status status = cuda::to_status(device.api(), code, what);
    if (status.code() == StatusCode::no_space)
      return error(StatusCode::resource_exhausted, status.message());
    return error(std::move(status));
  }
  buffer.device_ = &device;
  buffer.size_ = bytes;
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      address_(std::exchange(other.address_, 0)),
      size_(std::exchange(other.size_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (!device_) return;
  (void)device_->make_current();
  (void)device_->api().mem_free(address_);
}

Result<PinnedBuffer> PinnedBuffer::allocate(const cuda::Device& device, std::size_t bytes) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  void* memory = nullptr;
  if (const auto code = device.api().mem_host_alloc(&memory, bytes, 0))
    return error(cuda::to_status(
        device.api(), code, "could not have " + format_bytes(bytes) + " of page-locked memory"));
  PinnedBuffer buffer;
  buffer.device_ = &device;
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.size_ = bytes;
  return buffer;
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (!device_) return;
  (void)device_->make_current();
  (void)device_->api().mem_free_host(data_);
}

Result<Stream> Stream::create(const cuda::Device& device) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  cuda::StreamHandle handle = nullptr;
  if (const auto code = device.api().stream_create(&handle, cuda::stream_non_blocking))
    return error(cuda::to_status(device.api(), code, "could not make a stream"));
  return Stream(device, handle);
}

Stream::Stream(Stream&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

Stream::~Stream() {
  if (!handle_) return;
  (void)device_->make_current();
  (void)device_->api().stream_synchronize(handle_);
  (void)device_->api().stream_destroy(handle_);
}

Status Stream::wait() const {
  return cuda::to_status(device_->api(), device_->api().stream_synchronize(handle_),
                         "the work on " + device_->name() + " failed");
}

}  // namespace terrace::inference::gpu
