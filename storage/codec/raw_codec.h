// The payload as it is.
#pragma once

#include "storage/codec/payload_codec.h"

namespace terrace::storage {

class RawCodec final : public PayloadCodec {
 public:
  Codec id() const override { return Codec::raw; }
  Result<std::size_t> encode(std::span<const std::byte> payload, std::size_t element_bytes,
                             std::span<std::byte> out) override;
  Status decode(std::span<const std::byte> stored, std::span<std::byte> out) override;
};

}  // namespace terrace::storage
