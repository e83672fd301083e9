#include "storage/device/cuda/cuda_accelerator.h"

#include <utility>

#include "core/bytes.h"
#include "core/cuda/shared_device_memory.h"

namespace terrace::storage {
namespace {

class CudaMemory final : public DeviceMemory {
 public:
  CudaMemory(DeviceRanges& ranges, cuda::SharedDeviceMemory memory, UniqueFd fd)
      : ranges_(ranges), memory_(std::move(memory)), fd_(std::move(fd)) {
    ranges_.add(memory_.address(), memory_.size());
  }
  ~CudaMemory() override { ranges_.remove(memory_.address()); }

  std::size_t size() const override { return memory_.size(); }
  std::byte* data() const override { return reinterpret_cast<std::byte*>(memory_.address()); }
  bool host_accessible() const override { return false; }
  int exported_fd() const override { return fd_.get(); }

 private:
  DeviceRanges& ranges_;
  cuda::SharedDeviceMemory memory_;
  UniqueFd fd_;
};

}  // namespace

Result<std::unique_ptr<CudaAccelerator>> CudaAccelerator::open(const cuda::DriverApi& api,
                                                               int ordinal,
                                                               const KernelImage& image) {
  auto device = cuda::Device::open(api, ordinal);
  if (!device) return error(device.error());
  std::unique_ptr<CudaAccelerator> accelerator(new CudaAccelerator(std::move(*device)));
  if (Status status = accelerator->device_->make_current(); !status.ok())
    return error(StatusCode::unavailable, status.message());
  auto checksum = DeviceChecksum::load(*accelerator->device_, image);
  if (checksum) {
    accelerator->checksum_ = std::move(*checksum);
  } else {
    accelerator->kernel_status_ = checksum.error();
  }
  if (Status status = accelerator->start_lanes(); !status.ok())
    return error(StatusCode::unavailable,
                 status.with_context(accelerator->device_->name()).message());
  return accelerator;
}

Status CudaAccelerator::start_lanes() {
  for (JobQueue* queue : {&to_device_, &from_device_}) {
    for (std::size_t i = 0; i < lanes_per_direction; ++i) {
      auto lane = CopyLane::create(*device_, checksum_.get(), ranges_);
      if (!lane) return lane.error();
      lanes_.push_back(std::move(*lane));
      threads_.emplace_back([this, lane = lanes_.back().get(), queue] { work(*lane, *queue); });
    }
  }
  return {};
}

CudaAccelerator::~CudaAccelerator() {
  to_device_.stop();
  from_device_.stop();
  for (std::thread& thread : threads_) thread.join();
}

std::string CudaAccelerator::device_uuid() const { return to_hex(device_->uuid()); }

Result<std::unique_ptr<DeviceMemory>> CudaAccelerator::allocate(std::size_t bytes) {
  const auto granularity = cuda::SharedDeviceMemory::granularity(*device_);
  if (!granularity) return error(granularity.error());
  // Downwards: the capacity is a cap.
  const std::size_t whole = bytes / *granularity * *granularity;
  if (whole == 0)
    return error(StatusCode::invalid_argument,
                 device_->name() + " gives memory in pieces of " + format_bytes(*granularity));
  auto memory = cuda::SharedDeviceMemory::create(*device_, whole);
  if (!memory) return error(memory.error().with_context("device arena"));
  auto fd = memory->export_fd();
  if (!fd) return error(fd.error().with_context("device arena"));
  return std::make_unique<CudaMemory>(ranges_, std::move(*memory), std::move(*fd));
}

Status CudaAccelerator::register_host_memory(std::span<std::byte> memory) {
  if (Status status = device_->make_current(); !status.ok()) return status;
  return cuda::to_status(
      device_->api(),
      device_->api().mem_host_register(memory.data(), memory.size(), cuda::host_register_portable),
      "could not register host memory with " + device_->name());
}

void CudaAccelerator::unregister_host_memory(std::span<std::byte> memory) {
  (void)device_->make_current();
  (void)device_->api().mem_host_unregister(memory.data());
}

void CudaAccelerator::copy_async(std::uint64_t ticket, std::byte* to,
                                 std::span<const std::byte> from) {
  (ranges_.contains(to) ? to_device_ : from_device_).push({ticket, to, from});
}

void CudaAccelerator::checksum_async(std::uint64_t ticket, std::span<const std::byte> from) {
  to_device_.push({ticket, nullptr, from});
}

void CudaAccelerator::synchronize() {
  to_device_.wait_until_idle();
  from_device_.wait_until_idle();
}

void CudaAccelerator::work(CopyLane& lane, JobQueue& queue) {
  const Status current = device_->make_current();
  std::vector<CopyJob> batch;
  while (queue.take(batch, CopyLane::max_batch_jobs, CopyLane::max_batch_bytes)) {
    std::vector<CopyCompletion> completions;
    if (current.ok()) {
      completions = lane.run(batch);
    } else {
      for (const CopyJob& job : batch) completions.push_back({job.ticket, current, 0});
    }
    completions_.put(std::move(completions));
    // Only now: who synchronizes may destroy what the notification touches.
    queue.finished(batch.size());
  }
}

}  // namespace terrace::storage
