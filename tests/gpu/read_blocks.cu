#include <cstdint>

extern "C" __global__ void terrace_read_blocks(const std::uint64_t* addresses,
                                               std::uint64_t block_bytes, std::uint64_t* sums) {
  const auto* words = reinterpret_cast<const ulonglong2*>(addresses[blockIdx.x]);
  const std::uint64_t count = block_bytes / sizeof(ulonglong2);
  std::uint64_t sum = 0;
  for (std::uint64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const ulonglong2 word = words[i];
    sum += word.x ^ word.y;
  }
  // Written, so that the reads are not left out; into one place a thread, so that no order matters.
  if (sum == 0x5eed) sums[threadIdx.x] = sum;
}
