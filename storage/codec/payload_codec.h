// How a payload is stored: as it is, or compressed. Lossless; a codec never changes what a block
// is.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

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
  // `element_bytes`: of the numbers that the payload consists of, 0 if that is not known.
  virtual Result<std::size_t> encode(std::span<const std::byte> payload, std::size_t element_bytes,
                                     std::span<std::byte> out) = 0;

  // Fills `out`, the whole payload, from what encode() made of it. corruption if `stored` decodes
  // to anything but exactly out.size() bytes; `out` is undefined then.
  virtual Status decode(std::span<const std::byte> stored, std::span<std::byte> out) = 0;
};

// `zstd_level` does not matter to Codec::raw, and is clamped to the levels above.
std::unique_ptr<PayloadCodec> make_payload_codec(Codec codec, int zstd_level);

// The bytes of a number of a space's kv_dtype ("bf16", "f32"), 0 if it is none that we know.
std::size_t element_bytes_of(std::string_view kv_dtype);

}  // namespace terrace::storage
