#include "core/cuda/shared_device_memory.h"

#include <fcntl.h>

#include <utility>

namespace terrace::cuda {
namespace {

AllocationProperties properties_of(const Device& device) {
  AllocationProperties properties;
  properties.type = allocation_type_pinned;
  properties.requested_handle_types = handle_type_posix_fd;
  properties.location = {location_type_device, device.number()};
  return properties;
}

}  // namespace

Result<std::uint64_t> SharedDeviceMemory::granularity(const Device& device) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  const AllocationProperties properties = properties_of(device);
  std::size_t bytes = 0;
  if (const ResultCode code =
          device.api().mem_get_allocation_granularity(&bytes, &properties, granularity_recommended);
      code != success || bytes == 0)
    return error(to_status(device.api(), code == success ? invalid_value : code,
                           "could not ask " + device.name() + " how it gives out memory"));
  return bytes;
}

Result<SharedDeviceMemory> SharedDeviceMemory::create(const Device& device, std::size_t bytes) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  SharedDeviceMemory memory(device);
  const AllocationProperties properties = properties_of(device);
  if (const ResultCode code = device.api().mem_create(&memory.handle_, bytes, &properties, 0);
      code != success)
    return error(to_status(
        device.api(), code,
        "could not have " + std::to_string(bytes) + " bytes of memory of " + device.name()));
  memory.has_handle_ = true;
  if (Status status = memory.map(bytes); !status.ok()) return error(std::move(status));
  return memory;
}

Result<SharedDeviceMemory> SharedDeviceMemory::import(const Device& device, int fd,
                                                      std::size_t bytes) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  SharedDeviceMemory memory(device);
  void* const shareable = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd));
  if (const ResultCode code = device.api().mem_import_from_shareable_handle(
          &memory.handle_, shareable, handle_type_posix_fd);
      code != success)
    return error(
        to_status(device.api(), code, "could not import shared memory of " + device.name()));
  memory.has_handle_ = true;
  if (Status status = memory.map(bytes); !status.ok()) return error(std::move(status));
  return memory;
}

Status SharedDeviceMemory::map(std::size_t bytes) {
  const DriverApi& api = device_->api();
  DeviceAddress address = 0;
  if (const ResultCode code = api.mem_address_reserve(&address, bytes, 0, 0, 0); code != success)
    return to_status(api, code, "could not reserve device addresses");
  address_ = address;
  size_ = bytes;
  if (const ResultCode code = api.mem_map(address, bytes, 0, handle_, 0); code != success)
    return to_status(api, code, "could not map device memory");
  mapped_ = true;
  const AccessDescription access{{location_type_device, device_->number()}, access_read_write};
  if (const ResultCode code = api.mem_set_access(address, bytes, &access, 1); code != success)
    return to_status(api, code, "could not make device memory accessible");
  return {};
}

Result<UniqueFd> SharedDeviceMemory::export_fd() const {
  if (Status status = device_->make_current(); !status.ok()) return error(std::move(status));
  int fd = -1;
  if (const ResultCode code =
          device_->api().mem_export_to_shareable_handle(&fd, handle_, handle_type_posix_fd, 0);
      code != success)
    return error(to_status(device_->api(), code, "could not export device memory"));
  UniqueFd exported(fd);
  // The driver may not have: a program that this one starts must not keep the memory.
  ::fcntl(exported.get(), F_SETFD, FD_CLOEXEC);
  return exported;
}

SharedDeviceMemory::SharedDeviceMemory(SharedDeviceMemory&& other) noexcept
    : device_(other.device_),
      handle_(other.handle_),
      has_handle_(std::exchange(other.has_handle_, false)),
      mapped_(std::exchange(other.mapped_, false)),
      address_(std::exchange(other.address_, 0)),
      size_(std::exchange(other.size_, 0)) {}

SharedDeviceMemory::~SharedDeviceMemory() {
  if (!has_handle_ && size_ == 0) return;
  (void)device_->make_current();
  const DriverApi& api = device_->api();
  if (mapped_) (void)api.mem_unmap(address_, size_);
  if (size_ > 0) (void)api.mem_address_free(address_, size_);
  if (has_handle_) (void)api.mem_release(handle_);
}

}  // namespace terrace::cuda
