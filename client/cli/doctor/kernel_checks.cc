#include "client/cli/doctor/kernel_checks.h"

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "client/cli/text.h"
#include "core/cuda/driver_api.h"

namespace terrace::cli::doctor {
namespace {

// 2026-01-01: no clock that is right says less.
constexpr std::int64_t first_plausible_unix_ms = 1'767'225'600'000;

}  // namespace

RingFacts gather_ring(config::DiskRing wanted) {
  RingFacts facts;
  facts.wanted = wanted != config::DiskRing::threads;
  facts.required = wanted == config::DiskRing::io_uring;
  io_uring_params params{};
  const long ring = ::syscall(SYS_io_uring_setup, 8, &params);
  if (ring < 0)
    facts.error_number = errno;
  else
    ::close(static_cast<int>(ring));
  return facts;
}

Findings check_ring(const RingFacts& facts) {
  if (facts.error_number == 0) return {{"io_uring", Severity::ok, "usable", ""}};
  const std::string why = std::strerror(facts.error_number);
  if (!facts.wanted)
    return {{"io_uring", Severity::ok, "not usable (" + why + "), and not asked for", ""}};
  const std::string advice =
      facts.error_number == ENOSYS ? "a kernel with io_uring, or disk.ring = \"threads\""
      : facts.error_number == ENOMEM
          ? "raise the limit of locked memory (LimitMEMLOCK=), or disk.ring = \"threads\""
          : "allow it (sysctl kernel.io_uring_disabled=0; containers: a seccomp profile that lets "
            "io_uring_setup pass), or disk.ring = \"threads\"";
  return {{"io_uring", facts.required ? Severity::problem : Severity::warning,
           "not usable (" + why + ")" +
               (facts.required ? ", and disk.ring asks for it: the daemon will not start"
                               : ": the disk tier reads and writes with threads instead"),
           advice}};
}

GpuFacts gather_gpu(config::DeviceKind wanted) {
  GpuFacts facts;
  facts.wanted = wanted != config::DeviceKind::emulated;
  facts.required = wanted == config::DeviceKind::cuda;
  const auto driver = cuda::load_driver();
  if (!driver) {
    facts.why_none = driver.error().message();
    return facts;
  }
  cuda::DeviceNumber first = 0;
  char name[128] = {};
  if ((*driver)->device_get(&first, 0) != cuda::success ||
      (*driver)->device_get_name(name, sizeof name - 1, first) != cuda::success)
    facts.why_none = "the driver shows no GPU";
  else
    facts.name = printable(name);
  return facts;
}

Findings check_gpu(const GpuFacts& facts) {
  if (!facts.name.empty())
    return {{"gpu", Severity::ok,
             facts.name + (facts.wanted ? "" : " is there; device.accelerator does not use it"),
             ""}};
  if (!facts.wanted)
    return {{"gpu", Severity::ok, "none; the device tier is the machine's memory", ""}};
  return {{"gpu", facts.required ? Severity::problem : Severity::warning,
           "none can be used: " + facts.why_none,
           "install the driver and see what nvidia-smi says (containers: --gpus all), or "
           "device.accelerator = \"emulated\""}};
}

Findings check_clock(std::int64_t unix_ms) {
  if (unix_ms >= first_plausible_unix_ms) return {{"clock", Severity::ok, format_utc(unix_ms), ""}};
  return {{"clock", Severity::warning, "the clock says " + format_utc(unix_ms),
           "set it (timedatectl set-ntp true): pins with an end and ages go by it"}};
}

}  // namespace terrace::cli::doctor
