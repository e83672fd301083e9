// Zstandard over the bytes of numbers sorted by their meaning: all exponents, then all mantissas.
// Exponents of neighbouring numbers are alike and compress; mantissas are noise and are left as
// they are. Lossless.
#pragma once

#include <memory>

#include "storage/codec/payload_codec.h"

namespace terrace::storage {

std::unique_ptr<PayloadCodec> make_plane_codec(int zstd_level);

}  // namespace terrace::storage
