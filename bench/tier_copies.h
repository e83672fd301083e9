// Copies between the host and the device through the accelerator, beside memcpy.
#pragma once

#include <cstddef>

#include "bench/samples.h"
#include "core/status.h"

namespace terrace::bench {

struct CopyFigures {
  Samples host_to_device_GBps, device_to_host_GBps;
  // memcpy between the same memory on as many threads, measured beside each.
  Samples to_device_floor_GBps, to_host_floor_GBps;

  double host_to_device_ratio() const {
    return host_to_device_GBps.median() / to_device_floor_GBps.median();
  }
  double device_to_host_ratio() const {
    return device_to_host_GBps.median() / to_host_floor_GBps.median();
  }
};

// Moves `total_bytes` in blocks to the device and back, `repetitions` times. corruption if what
// arrived is not what was sent.
Result<CopyFigures> measure_copies(std::size_t block_bytes, std::size_t total_bytes,
                                   std::size_t repetitions);

}  // namespace terrace::bench
