// A CUDA device as this process uses it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "core/cuda/driver_api.h"
#include "core/status.h"

namespace terrace::cuda {

// Holds the device's primary context. Any thread; what a method needs current it makes current.
class Device {
 public:
  // The device `ordinal` of those that the driver shows (CUDA_VISIBLE_DEVICES counts). `api` must
  // outlive it. unavailable, with a reason for people, if there is none or it cannot share memory.
  static Result<std::unique_ptr<Device>> open(const DriverApi& api, int ordinal);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DriverApi& api() const { return api_; }
  // "cuda:0 (NVIDIA H200)".
  const std::string& name() const { return name_; }
  // The same in every process, however each numbers the devices.
  const std::array<std::uint8_t, 16>& uuid() const { return uuid_; }
  DeviceNumber number() const { return number_; }

  // The context becomes the calling thread's. Once a thread is enough.
  Status make_current() const;
  // Device memory that nobody has, in this process or another.
  Result<std::uint64_t> free_bytes() const;

 private:
  Device(const DriverApi& api, DeviceNumber number) : api_(api), number_(number) {}

  const DriverApi& api_;
  DeviceNumber number_;
  std::string name_;
  std::array<std::uint8_t, 16> uuid_{};
  ContextHandle context_ = nullptr;
};

}  // namespace terrace::cuda
