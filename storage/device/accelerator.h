// The accelerator as a seam of a few methods: memory that can be exported to the workers, and
// copies that complete later. The host accelerator ("emulated") uses a memory file; CUDA implements
// the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"

namespace terrace::storage {

// Memory of an accelerator. Freed with the object, which must outlive every copy into or out of it.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  virtual std::size_t size() const = 0;
  // Address for copies. Readable and writable by the CPU only if host_accessible().
  virtual std::byte* data() const = 0;
  virtual bool host_accessible() const = 0;
  // A descriptor that another process can map; stays owned by this object.
  virtual int exported_fd() const = 0;
};

struct CopyCompletion {
  std::uint64_t ticket = 0;
  Status status;
  std::uint64_t checksum = 0;  // payload_checksum of the bytes copied or read
};

// Methods are called by the deciding thread and never block on a copy, but for synchronize().
// Work completes in any order.
class Accelerator {
 public:
  virtual ~Accelerator() = default;
  // "emulated" or the device's name.
  virtual std::string name() const = 0;
  // Of the memory that allocate() gives. Where it is false, what goes to and comes from the disk
  // passes through host memory (staged_disk.h).
  virtual bool host_accessible() const { return true; }
  // Names the device to other processes; empty where there is none.
  virtual std::string device_uuid() const { return {}; }
  // What allocate() could give now without pushing others out of memory, as far as that is known.
  virtual Result<std::uint64_t> available_bytes() const {
    return std::numeric_limits<std::uint64_t>::max();
  }
  // Memory of at most `bytes` (devices give it in pieces). no_space if there is not that much. May
  // take a while, and may be called from another thread than the rest.
  virtual Result<std::unique_ptr<DeviceMemory>> allocate(std::size_t bytes) = 0;
  // Tells the device of host memory that is copied from and to often, page-aligned: copies are
  // faster then, and as right without. To be taken back before the memory is freed, after the last
  // copy; unregistering what was not registered does nothing.
  virtual Status register_host_memory(std::span<std::byte>) { return {}; }
  virtual void unregister_host_memory(std::span<std::byte>) {}
  // Starts a copy; both sides stay valid until its completion. Sides may be device memory or
  // ordinary memory. Between memory that is host_accessible(), the checksum is that of what has
  // arrived, also if somebody writes to the source meanwhile.
  virtual void copy_async(std::uint64_t ticket, std::byte* to, std::span<const std::byte> from) = 0;
  // As a copy to nowhere: only the checksum is taken.
  virtual void checksum_async(std::uint64_t ticket, std::span<const std::byte> from) = 0;
  virtual void take_completions(std::vector<CopyCompletion>& out) = 0;
  // Called from any thread whenever take_completions has something new; must only wake the deciding
  // thread. After set_notify returns, the function set before is not called any more.
  virtual void set_notify(std::function<void()> notify) = 0;
  // Blocks until nothing is under way. For shutting down: memory may be freed afterwards.
  virtual void synchronize() = 0;
};

}  // namespace terrace::storage
