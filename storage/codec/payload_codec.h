// How a payload is stored: as it is, or compressed. Lossless; a codec never changes what a block
// is.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/record.h"
#include "core/status.h"

namespace terrace::storage {

constexpr int min_zstd_level = 1, max_zstd_level = 19;

// One instance for each thread: it keeps working memory between calls.
class PayloadCodec {
 public:
  virtual ~PayloadCodec() = default;

  virtual Codec id() const = 0;

  // Writes the encoded payload to the start of `out` and returns its length. no_space if it does
  // not fit: the caller chooses out's size as the most that is still worth it, and stores raw else.
  virtual Result<std::size_t> encode(std::span<const std::byte> payload,
                                     std::span<std::byte> out) = 0;

  // Fills `out`, the whole payload, from what encode() made of it. corruption if `stored` decodes
  // to anything but exactly out.size() bytes; `out` is undefined then.
  virtual Status decode(std::span<const std::byte> stored, std::span<std::byte> out) = 0;
};

// `zstd_level` only matters to Codec::zstd, and is clamped to the levels above.
std::unique_ptr<PayloadCodec> make_payload_codec(Codec codec, int zstd_level);

}  // namespace terrace::storage
