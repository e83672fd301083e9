#include "storage/codec/payload_codec.h"

#include <algorithm>
#include <cstring>

#include "storage/codec/plane_codec.h"
#include "storage/codec/raw_codec.h"
#include "storage/codec/zstd_codec.h"

namespace terrace::storage {

Result<std::size_t> RawCodec::encode(std::span<const std::byte> payload, std::size_t,
                                     std::span<std::byte> out) {
  if (payload.size() > out.size()) return error(StatusCode::no_space, "raw: does not fit");
  if (!payload.empty()) std::memcpy(out.data(), payload.data(), payload.size());
  return payload.size();
}

Status RawCodec::decode(std::span<const std::byte> stored, std::span<std::byte> out) {
  if (stored.size() != out.size())
    return Status(StatusCode::corruption, "raw: stored length is not the payload's");
  if (!out.empty()) std::memcpy(out.data(), stored.data(), out.size());
  return {};
}

std::unique_ptr<PayloadCodec> make_payload_codec(Codec codec, int zstd_level) {
  const int level = std::clamp(zstd_level, min_zstd_level, max_zstd_level);
  switch (codec) {
    case Codec::raw:
      break;
    case Codec::zstd:
      return make_zstd_codec(level);
    case Codec::planes:
      return make_plane_codec(level);
  }
  return std::make_unique<RawCodec>();
}

std::size_t element_bytes_of(std::string_view kv_dtype) {
  if (kv_dtype == "bf16" || kv_dtype == "f16") return 2;
  return kv_dtype == "f32" ? 4 : 0;
}

}  // namespace terrace::storage
