// How fast a tier delivers: measured over its busy times, so that parallel loads count once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::storage {

class LoadRate {
 public:
  // An estimate is forgotten when it is older than this: a tier that was slow once would otherwise
  // never be asked, and so never be measured, again.
  static constexpr std::int64_t estimate_ttl_ns = 10'000'000'000;
  // Weight of the newest sample.
  static constexpr double newest_weight = 0.3;
  // A busy time is cut into samples of at least so many bytes.
  static constexpr std::uint64_t sample_bytes = 8ull << 20;

  void started(std::int64_t now_ns) {
    if (under_way_++ == 0) since_ns_ = now_ns;
  }
  // `bytes` is 0 for a load that failed.
  void finished(std::int64_t now_ns, std::uint64_t bytes) {
    bytes_ += bytes;
    if (--under_way_ > 0 && bytes_ < sample_bytes) return;
    if (bytes_ > 0) {
      const double sample = static_cast<double>(now_ns - since_ns_) / static_cast<double>(bytes_);
      ns_per_byte_ =
          ns_per_byte_ < 0 ? sample : ns_per_byte_ + newest_weight * (sample - ns_per_byte_);
      measured_ns_ = now_ns;
    }
    since_ns_ = now_ns;
    bytes_ = 0;
  }
  // Nanoseconds to load `bytes`, latency included; 0 if that is not known.
  double estimate_ns(std::int64_t now_ns, std::uint64_t bytes) const {
    if (ns_per_byte_ < 0 || now_ns - measured_ns_ > estimate_ttl_ns) return 0;
    return ns_per_byte_ * static_cast<double>(bytes);
  }

 private:
  std::uint32_t under_way_ = 0;
  std::int64_t since_ns_ = 0, measured_ns_ = 0;
  std::uint64_t bytes_ = 0;
  double ns_per_byte_ = -1;
};

}  // namespace terrace::storage
