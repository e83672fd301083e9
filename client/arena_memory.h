// The daemon's device arena where it is no memory of the machine: a program that computes on a GPU
// brings what imports it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/status.h"

namespace terrace::client {

// Imported memory: addresses are the device's, the CPU cannot reach them. Freed with the object.
class ArenaMemory {
 public:
  virtual ~ArenaMemory() = default;
  virtual std::byte* data() const = 0;
  virtual std::uint64_t size() const = 0;
  // payload_checksum (core/checksum.h) of bytes of it. One call at a time.
  virtual Result<std::uint64_t> checksum(std::span<const std::byte> payload) const = 0;
};

class ArenaImporter {
 public:
  virtual ~ArenaImporter() = default;
  // Imports what the daemon exported as `fd`, which stays the caller's. `device_uuid` names the
  // GPU in hexadecimal digits. Called on the connection's thread.
  virtual Result<std::shared_ptr<const ArenaMemory>> import(int fd, std::uint64_t bytes,
                                                            const std::string& device_uuid) = 0;
};

}  // namespace terrace::client
