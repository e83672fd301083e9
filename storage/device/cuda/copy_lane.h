// A stream of the device with what its copies need: one thread's way to the device.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/cuda/device.h"
#include "core/status.h"
#include "storage/device/cuda/device_checksum.h"
#include "storage/device/cuda/device_ranges.h"
#include "storage/device/job_queue.h"

namespace terrace::storage {

// Used by one thread at a time, on which the device's context is current.
class CopyLane {
 public:
  // What one turn takes at most; a single larger copy is taken alone.
  static constexpr std::size_t max_batch_jobs = 32;
  static constexpr std::size_t max_batch_bytes = std::size_t{32} << 20;

  // `checksum` may be null: then the CPU hashes what it copies, and what it fetches for that. All
  // must outlive the lane.
  static Result<std::unique_ptr<CopyLane>> create(const cuda::Device& device,
                                                  const DeviceChecksum* checksum,
                                                  const DeviceRanges& ranges);
  ~CopyLane();
  CopyLane(const CopyLane&) = delete;
  CopyLane& operator=(const CopyLane&) = delete;

  // Carries out the jobs, all at once on the stream, waits for them, and says of each what became
  // of it: io_error if the driver refused or the device failed. The checksum is that of the bytes
  // where they went to (of the source, if that is host memory and there is no kernel), or of the
  // bytes that a check read. Nothing is under way afterwards.
  std::vector<CopyCompletion> run(std::span<const CopyJob> jobs);

 private:
  // What is left to do for a job once the stream has come to its end.
  enum class Hash {
    known,    // nothing: the completion has it
    digests,  // the kernel has made the digests
    target,   // the CPU hashes where it went to
    source,   // the CPU hashes where it came from
    fetched,  // the CPU hashes device memory, which is fetched for that
  };
  struct Started {
    Hash hash = Hash::known;
    std::span<const std::byte> hashed;
    std::size_t first_digest = 0, digests = 0;
    bool on_stream = false;
  };

  CopyLane(const cuda::Device& device, const DeviceChecksum* checksum, const DeviceRanges& ranges)
      : device_(device), checksum_(checksum), ranges_(ranges) {}
  Status allocate();
  Started start(const CopyJob& job, CopyCompletion& completion);
  // Hashes device memory behind the copy: by the kernel if it can.
  Status hash_on_device(std::span<const std::byte> payload, Started& started);
  Status finish_stream();
  std::uint64_t hash_of_digests(const Started& started) const;
  Result<std::uint64_t> fetch_and_hash(std::span<const std::byte> payload);

  // Digests of a whole batch, and the piece of device memory that is fetched at a time.
  static constexpr std::size_t max_digests = max_batch_bytes / hash_piece_bytes + max_batch_jobs;
  static constexpr std::size_t fetched_bytes = 64 * hash_piece_bytes;

  const cuda::Device& device_;
  const DeviceChecksum* checksum_;
  const DeviceRanges& ranges_;
  cuda::StreamHandle stream_ = nullptr;
  cuda::EventHandle event_ = nullptr;
  cuda::DeviceAddress device_digests_ = 0;
  std::byte* host_digests_ = nullptr;  // page-locked, as is the next
  std::byte* fetched_ = nullptr;
  std::size_t digests_used_ = 0;
};

}  // namespace terrace::storage
