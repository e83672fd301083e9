#include "core/cuda/device.h"

#include <cstring>

namespace terrace::cuda {

Result<std::unique_ptr<Device>> Device::open(const DriverApi& api, int ordinal) {
  const std::string label = "cuda:" + std::to_string(ordinal);
  const auto unavailable = [&](ResultCode code, const char* what) {
    return error(StatusCode::unavailable, to_status(api, code, label + ": " + what).message());
  };
  int count = 0;
  if (const ResultCode code = api.device_get_count(&count); code != success)
    return unavailable(code, "could not count the devices");
  if (ordinal < 0 || ordinal >= count)
    return error(StatusCode::unavailable, "there is no device " + label +
                                              ": the CUDA driver shows " + std::to_string(count));
  DeviceNumber number = 0;
  if (const ResultCode code = api.device_get(&number, ordinal); code != success)
    return unavailable(code, "could not find the device");

  std::unique_ptr<Device> device(new Device(api, number));
  char name[128] = {};
  if (const ResultCode code = api.device_get_name(name, sizeof name - 1, number); code != success)
    return unavailable(code, "could not read the device's name");
  device->name_ = label + " (" + name + ")";
  Uuid uuid{};
  if (const ResultCode code = api.device_get_uuid(&uuid, number); code != success)
    return unavailable(code, "could not read the device's UUID");
  std::memcpy(device->uuid_.data(), uuid.bytes, sizeof uuid.bytes);
  for (const int attribute : {attribute_virtual_memory_management, attribute_posix_fd_handles}) {
    int supported = 0;
    if (const ResultCode code = api.device_get_attribute(&supported, attribute, number);
        code != success)
      return unavailable(code, "could not read the device's attributes");
    if (!supported)
      return error(StatusCode::unavailable,
                   device->name_ + " cannot share memory with other processes as a descriptor");
  }
  // Waits of this process leave the processor to others. Refused once another part of the process
  // uses the context already; only cost depends on it.
  (void)api.primary_context_set_flags(number, context_blocking_sync);
  if (const ResultCode code = api.primary_context_retain(&device->context_, number);
      code != success)
    return unavailable(code, "could not make the device's context");
  return device;
}

Device::~Device() {
  if (context_) (void)api_.primary_context_release(number_);
}

Status Device::make_current() const {
  return to_status(api_, api_.context_set_current(context_),
                   "could not make the context of " + name_ + " current");
}

Result<std::uint64_t> Device::free_bytes() const {
  if (Status status = make_current(); !status.ok()) return error(std::move(status));
  std::size_t free = 0, total = 0;
  if (const ResultCode code = api_.mem_get_info(&free, &total); code != success)
    return error(to_status(api_, code, "could not ask for the free memory of " + name_));
  return free;
}

}  // namespace terrace::cuda
