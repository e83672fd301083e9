// Zstandard, one frame a payload.
#pragma once

#include <memory>

#include "storage/codec/payload_codec.h"

namespace terrace::storage {

std::unique_ptr<PayloadCodec> make_zstd_codec(int level);

}  // namespace terrace::storage
