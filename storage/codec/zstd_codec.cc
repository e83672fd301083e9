#include "storage/codec/zstd_codec.h"

#include <zstd_errors.h>

#include <new>
#include <string>

#include "storage/codec/zstd_context.h"

namespace terrace::storage {

namespace {

class ZstdCodec final : public PayloadCodec {
 public:
  explicit ZstdCodec(int level)
      : level_(level), compressor_(ZSTD_createCCtx()), decompressor_(ZSTD_createDCtx()) {
    if (!compressor_ || !decompressor_) throw std::bad_alloc();
  }

  Codec id() const override { return Codec::zstd; }

  Result<std::size_t> encode(std::span<const std::byte> payload, std::size_t,
                             std::span<std::byte> out) override {
    const std::size_t bytes = ZSTD_compressCCtx(compressor_.get(), out.data(), out.size(),
                                                payload.data(), payload.size(), level_);
    if (!ZSTD_isError(bytes)) return bytes;
    if (ZSTD_getErrorCode(bytes) == ZSTD_error_dstSize_tooSmall)
      return error(StatusCode::no_space, "zstd: does not fit");
    return error(StatusCode::internal, std::string("zstd: ") + ZSTD_getErrorName(bytes));
  }

  Status decode(std::span<const std::byte> stored, std::span<std::byte> out) override {
    const std::size_t bytes = ZSTD_decompressDCtx(decompressor_.get(), out.data(), out.size(),
                                                  stored.data(), stored.size());
    if (ZSTD_isError(bytes))
      return Status(StatusCode::corruption, std::string("zstd: ") + ZSTD_getErrorName(bytes));
    if (bytes != out.size())
      return Status(StatusCode::corruption, "zstd: decodes to " + std::to_string(bytes) +
                                                " bytes, not " + std::to_string(out.size()));
    return {};
  }

 private:
  const int level_;
  const ZstdCompressor compressor_;
  const ZstdDecompressor decompressor_;
};

}  // namespace

std::unique_ptr<PayloadCodec> make_zstd_codec(int level) {
  return std::make_unique<ZstdCodec>(level);
}

}  // namespace terrace::storage
