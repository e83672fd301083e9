// Device memory that processes share through a descriptor: what SharedMapping is to host memory.
// The daemon creates and exports it, a worker imports it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cuda/device.h"
#include "core/status.h"
#include "core/unique_fd.h"

namespace terrace::cuda {

// An allocation that is mapped into the device's address space, read-write. The physical memory is
// given back when no process maps or holds it any more, as with a memory file. The device must
// outlive it. Movable.
class SharedDeviceMemory {
 public:
  // Memory comes in pieces of this size: 2 MiB on today's devices.
  static Result<std::uint64_t> granularity(const Device& device);
  // `bytes` is a multiple of the granularity and not 0. no_space if the device has not that much.
  // Contents are undefined. After a failure nothing is left behind.
  static Result<SharedDeviceMemory> create(const Device& device, std::size_t bytes);
  // A descriptor that another process can import; the caller's own.
  Result<UniqueFd> export_fd() const;
  // Maps what another process exported, which has `bytes` bytes; the descriptor may be closed
  // afterwards.
  static Result<SharedDeviceMemory> import(const Device& device, int fd, std::size_t bytes);

  SharedDeviceMemory(SharedDeviceMemory&& other) noexcept;
  SharedDeviceMemory& operator=(SharedDeviceMemory&&) = delete;
  ~SharedDeviceMemory();

  DeviceAddress address() const { return address_; }
  std::size_t size() const { return size_; }

 private:
  explicit SharedDeviceMemory(const Device& device) : device_(&device) {}
  Status map(std::size_t bytes);

  const Device* device_;
  AllocationHandle handle_ = 0;
  bool has_handle_ = false, mapped_ = false;
  DeviceAddress address_ = 0;
  std::size_t size_ = 0;  // of the reserved addresses
};

}  // namespace terrace::cuda
