// The contexts of zstd, each owned by one codec.
#pragma once

#include <zstd.h>

#include <memory>

namespace terrace::storage {

struct FreeZstdContext {
  void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};
using ZstdCompressor = std::unique_ptr<ZSTD_CCtx, FreeZstdContext>;
using ZstdDecompressor = std::unique_ptr<ZSTD_DCtx, FreeZstdContext>;

}  // namespace terrace::storage
