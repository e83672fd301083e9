// What the kernel and the machine's devices offer.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/doctor/finding.h"
#include "config/daemon_config.h"

namespace terrace::cli::doctor {

struct RingFacts {
  bool wanted = true, required = false;  // by disk.ring
  int error_number = 0;                  // of setting up a ring; 0: it works
};
RingFacts gather_ring(config::DiskRing wanted);
Findings check_ring(const RingFacts& facts);

struct GpuFacts {
  bool wanted = false, required = false;  // by device.accelerator
  std::string name;                       // of the first GPU that the driver shows; "": none
  std::string why_none;
};
GpuFacts gather_gpu(config::DeviceKind wanted);
Findings check_gpu(const GpuFacts& facts);

// Ages, pins with an end and the hours of the write budget go by the clock.
Findings check_clock(std::int64_t unix_ms);

}  // namespace terrace::cli::doctor
