#include "storage/device/cuda/copy_lane.h"

#include <algorithm>

#include "core/checksum.h"

namespace terrace::storage {
namespace {

cuda::DeviceAddress address_of(const std::byte* at) {
  return reinterpret_cast<cuda::DeviceAddress>(at);
}

}  // namespace

Result<std::unique_ptr<CopyLane>> CopyLane::create(const cuda::Device& device,
                                                   const DeviceChecksum* checksum,
                                                   const DeviceRanges& ranges) {
  if (Status status = device.make_current(); !status.ok()) return error(std::move(status));
  std::unique_ptr<CopyLane> lane(new CopyLane(device, checksum, ranges));
  if (Status status = lane->allocate(); !status.ok()) return error(std::move(status));
  return lane;
}

Status CopyLane::allocate() {
  const cuda::DriverApi& api = device_.api();
  if (const auto code = api.stream_create(&stream_, cuda::stream_non_blocking))
    return cuda::to_status(api, code, "could not make a stream");
  if (const auto code =
          api.event_create(&event_, cuda::event_blocking_sync | cuda::event_disable_timing))
    return cuda::to_status(api, code, "could not make an event");
  void* memory = nullptr;
  if (const auto code = api.mem_host_alloc(&memory, fetched_bytes, 0))
    return cuda::to_status(api, code, "could not have page-locked memory");
  fetched_ = static_cast<std::byte*>(memory);
  if (!checksum_) return {};
  if (const auto code = api.mem_host_alloc(&memory, max_digests * sizeof(std::uint64_t), 0))
    return cuda::to_status(api, code, "could not have page-locked memory");
  host_digests_ = static_cast<std::byte*>(memory);
  if (const auto code = api.mem_alloc(&device_digests_, max_digests * sizeof(std::uint64_t)))
    return cuda::to_status(api, code, "could not have device memory for digests");
  return {};
}

CopyLane::~CopyLane() {
  (void)device_.make_current();
  const cuda::DriverApi& api = device_.api();
  if (stream_) (void)api.stream_synchronize(stream_);
  if (event_) (void)api.event_destroy(event_);
  if (stream_) (void)api.stream_destroy(stream_);
  if (fetched_) (void)api.mem_free_host(fetched_);
  if (host_digests_) (void)api.mem_free_host(host_digests_);
  if (device_digests_) (void)api.mem_free(device_digests_);
}

std::vector<CopyCompletion> CopyLane::run(std::span<const CopyJob> jobs) {
  digests_used_ = 0;
  std::vector<CopyCompletion> completions(jobs.size());
  std::vector<Started> started(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    completions[i].ticket = jobs[i].ticket;
    started[i] = start(jobs[i], completions[i]);
  }
  const bool on_stream = std::ranges::any_of(started, &Started::on_stream);
  const Status streamed = on_stream ? finish_stream() : Status();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    CopyCompletion& completion = completions[i];
    if (started[i].on_stream && completion.status.ok()) completion.status = streamed;
    if (!completion.status.ok()) continue;
    switch (started[i].hash) {
      case Hash::known:
        break;
      case Hash::digests:
        completion.checksum = hash_of_digests(started[i]);
        break;
      case Hash::target:
      case Hash::source:
        completion.checksum = payload_checksum(started[i].hashed);
        break;
      case Hash::fetched: {
        const auto checksum = fetch_and_hash(started[i].hashed);
        if (checksum) {
          completion.checksum = *checksum;
        } else {
          completion.status = checksum.error();
        }
      }
    }
  }
  return completions;
}

CopyLane::Started CopyLane::start(const CopyJob& job, CopyCompletion& completion) {
  const cuda::DriverApi& api = device_.api();
  const std::size_t bytes = job.from.size();
  const bool from_device = ranges_.contains(job.from.data());
  Started started;
  if (!job.to) {
    if (from_device) {
      completion.status = hash_on_device(job.from, started);
    } else {
      started.hash = Hash::source;
      started.hashed = job.from;
    }
    return started;
  }
  const bool to_device = ranges_.contains(job.to);
  if (!from_device && !to_device) {
    completion.checksum = copy_with_checksum(job.to, job.from);
    return started;
  }
  cuda::ResultCode code = cuda::success;
  if (!to_device) {
    code = api.memcpy_device_to_host_async(job.to, address_of(job.from.data()), bytes, stream_);
  } else if (!from_device) {
    code = api.memcpy_host_to_device_async(address_of(job.to), job.from.data(), bytes, stream_);
  } else {
    code = api.memcpy_device_to_device_async(address_of(job.to), address_of(job.from.data()), bytes,
                                             stream_);
  }
  // Also if it was refused: a driver may report an earlier copy's failure here.
  started.on_stream = true;
  completion.status = cuda::to_status(api, code, "could not start a copy");
  if (code != cuda::success) return started;
  if (!to_device) {
    started.hash = Hash::target;
    started.hashed = {job.to, bytes};
  } else {
    completion.status = hash_on_device({job.to, bytes}, started);
    if (started.hash == Hash::fetched && !from_device) {
      // As good as fetching what has just gone there, and cheaper.
      started.hash = Hash::source;
      started.hashed = job.from;
    }
  }
  return started;
}

Status CopyLane::hash_on_device(std::span<const std::byte> payload, Started& started) {
  const std::size_t digests = DeviceChecksum::pieces(payload.size());
  started.hashed = payload;
  if (!checksum_ || !DeviceChecksum::can_hash(address_of(payload.data()), payload.size()) ||
      digests > max_digests - digests_used_) {
    started.hash = Hash::fetched;
    return {};
  }
  started.hash = Hash::digests;
  started.first_digest = digests_used_;
  started.digests = digests;
  started.on_stream = true;
  digests_used_ += digests;
  return checksum_->start(address_of(payload.data()), payload.size(),
                          device_digests_ + started.first_digest * sizeof(std::uint64_t), stream_);
}

// The event comes behind everything that was started. Whatever goes wrong on the way, nothing is
// left under way: who is told of a failure uses the memory again.
Status CopyLane::finish_stream() {
  const cuda::DriverApi& api = device_.api();
  cuda::ResultCode code = cuda::success;
  if (digests_used_ > 0)
    code = api.memcpy_device_to_host_async(host_digests_, device_digests_,
                                           digests_used_ * sizeof(std::uint64_t), stream_);
  if (code == cuda::success) code = api.event_record(event_, stream_);
  if (code == cuda::success) code = api.event_synchronize(event_);
  if (code != cuda::success) (void)api.stream_synchronize(stream_);
  return cuda::to_status(api, code, "a copy of " + device_.name() + " failed");
}

std::uint64_t CopyLane::hash_of_digests(const Started& started) const {
  return xxh3({host_digests_ + started.first_digest * sizeof(std::uint64_t),
               started.digests * sizeof(std::uint64_t)});
}

Result<std::uint64_t> CopyLane::fetch_and_hash(std::span<const std::byte> payload) {
  const cuda::DriverApi& api = device_.api();
  std::vector<std::uint64_t> digests;
  digests.reserve(DeviceChecksum::pieces(payload.size()));
  for (std::size_t at = 0; at < payload.size(); at += fetched_bytes) {
    const std::size_t bytes = std::min(fetched_bytes, payload.size() - at);
    auto code =
        api.memcpy_device_to_host_async(fetched_, address_of(payload.data()) + at, bytes, stream_);
    const auto waited = api.stream_synchronize(stream_);
    if (code == cuda::success) code = waited;
    if (code != cuda::success)
      return error(cuda::to_status(api, code, "could not fetch device memory to check it"));
    for (std::size_t piece = 0; piece < bytes; piece += hash_piece_bytes)
      digests.push_back(
          xxh3({fetched_ + piece, std::min<std::size_t>(hash_piece_bytes, bytes - piece)}));
  }
  return xxh3(std::as_bytes(std::span(digests)));
}

}  // namespace terrace::storage
