#include "storage/codec/plane_codec.h"

// For ZSTD_c_literalCompressionMode.
#define ZSTD_STATIC_LINKING_ONLY

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "storage/codec/byte_planes.h"
#include "storage/codec/zstd_context.h"

namespace terrace::storage {

namespace {

// docs/disk_format.md draws it: width, then for each plane how it is stored and how long.
constexpr std::size_t max_width = 4;
constexpr std::size_t width_bytes = 4, plane_header_bytes = 8;
enum class PlaneForm : std::uint32_t { raw = 0, zstd = 1 };

// A plane is compressed if a sample of it shrinks to this part.
constexpr std::size_t sample_bytes = 16 * kib;
constexpr double worth_ratio = 0.95;
// At higher levels matches are looked for all the same.
constexpr int max_entropy_only_level = 2;
constexpr int match_search_step = 4096;

tl::unexpected<Status> does_not_fit() {
  return error(StatusCode::no_space, "planes: does not fit");
}
Status corrupt(const char* message) {
  return Status(StatusCode::corruption, std::string("planes: ") + message);
}

class PlaneCodec final : public PayloadCodec {
 public:
  explicit PlaneCodec(int level)
      : compressor_(ZSTD_createCCtx()), decompressor_(ZSTD_createDCtx()) {
    if (!compressor_ || !decompressor_) throw std::bad_alloc();
    // Exponents are alike but do not repeat: what is gained is gained by coding each byte by its
    // frequency. Looking for matches costs most of the time and finds next to none.
    set(ZSTD_c_compressionLevel, level);
    if (level > max_entropy_only_level) return;
    set(ZSTD_c_strategy, ZSTD_fast);
    set(ZSTD_c_minMatch, 7);
    set(ZSTD_c_targetLength, match_search_step);
    set(ZSTD_c_literalCompressionMode, ZSTD_ps_enable);
  }

  Codec id() const override { return Codec::planes; }

  Result<std::size_t> encode(std::span<const std::byte> payload, std::size_t element_bytes,
                             std::span<std::byte> out) override {
    const std::size_t width = element_bytes == 2 || element_bytes == 4 ? element_bytes : 1;
    const std::size_t count = payload.size() / width;
    std::span<const std::byte> planes = payload;
    if (width > 1) {
      scratch_.resize(std::max(scratch_.size(), payload.size()));
      split_planes(payload, width, scratch_);
      planes = scratch_;
    }
    std::size_t at = width_bytes + width * plane_header_bytes;
    const auto rest = payload.subspan(count * width);
    if (out.size() < at + rest.size()) return does_not_fit();
    store_le(out.data(), static_cast<std::uint32_t>(width));
    for (std::size_t k = 0; k < width; ++k) {
      const auto plane = planes.subspan(k * count, count);
      auto stored = compress(plane, out.subspan(at, out.size() - at - rest.size()));
      PlaneForm form = PlaneForm::zstd;
      if (stored == 0) {
        form = PlaneForm::raw;
        stored = plane.size();
        if (out.size() - at - rest.size() < stored) return does_not_fit();
        if (stored > 0) std::memcpy(out.data() + at, plane.data(), stored);
      }
      std::byte* const header = out.data() + width_bytes + k * plane_header_bytes;
      store_le(header, static_cast<std::uint32_t>(form));
      store_le(header + 4, static_cast<std::uint32_t>(stored));
      at += stored;
    }
    if (!rest.empty()) std::memcpy(out.data() + at, rest.data(), rest.size());
    return at + rest.size();
  }

  Status decode(std::span<const std::byte> stored, std::span<std::byte> out) override {
    if (stored.size() < width_bytes) return corrupt("cut short");
    const std::size_t width = load_le<std::uint32_t>(stored.data());
    if (width != 1 && width != 2 && width != 4) return corrupt("a width that there is not");
    std::size_t at = width_bytes + width * plane_header_bytes;
    if (stored.size() < at) return corrupt("cut short");
    const std::size_t count = out.size() / width;
    std::array<const std::byte*, max_width> planes{};
    if (width > 1) scratch_.resize(std::max(scratch_.size(), count * width));
    for (std::size_t k = 0; k < width; ++k) {
      const std::byte* const header = stored.data() + width_bytes + k * plane_header_bytes;
      const auto form = static_cast<PlaneForm>(load_le<std::uint32_t>(header));
      const std::size_t bytes = load_le<std::uint32_t>(header + 4);
      if (bytes > stored.size() - at) return corrupt("a plane that is longer than the record");
      const auto plane = stored.subspan(at, bytes);
      at += bytes;
      if (form == PlaneForm::raw) {
        if (bytes != count) return corrupt("a plane of another length");
        planes[k] = plane.data();
        continue;
      }
      if (form != PlaneForm::zstd) return corrupt("a form that there is not");
      std::byte* const to = width == 1 ? out.data() : scratch_.data() + k * count;
      const std::size_t got =
          ZSTD_decompressDCtx(decompressor_.get(), to, count, plane.data(), plane.size());
      if (ZSTD_isError(got)) return corrupt(ZSTD_getErrorName(got));
      if (got != count) return corrupt("a plane of another length");
      planes[k] = to;
    }
    const auto rest = out.subspan(count * width);
    if (stored.size() - at != rest.size()) return corrupt("more or less than the payload");
    if (width > 1)
      join_planes(std::span(planes).first(width), count, out);
    else if (count > 0 && planes[0] != out.data())
      std::memcpy(out.data(), planes[0], count);
    if (!rest.empty()) std::memcpy(out.data() + count * width, stored.data() + at, rest.size());
    return {};
  }

 private:
  void set(ZSTD_cParameter parameter, int value) {
    // A library that does not know one of them compresses all the same.
    (void)ZSTD_CCtx_setParameter(compressor_.get(), parameter, value);
  }

  // The length of the compressed plane, 0 if it is better left as it is.
  std::size_t compress(std::span<const std::byte> plane, std::span<std::byte> out) {
    if (plane.size() > sample_bytes) {
      const auto sample =
          plane.subspan(plane.size() / 2 / 64 * 64).first(std::min(sample_bytes, plane.size() / 2));
      std::array<std::byte, sample_bytes> sampled;
      const std::size_t most =
          static_cast<std::size_t>(static_cast<double>(sample.size()) * worth_ratio);
      if (ZSTD_isError(ZSTD_compress2(compressor_.get(), sampled.data(), most, sample.data(),
                                      sample.size())))
        return 0;
    }
    const std::size_t most = std::min(
        out.size(), static_cast<std::size_t>(static_cast<double>(plane.size()) * worth_ratio));
    const std::size_t bytes =
        ZSTD_compress2(compressor_.get(), out.data(), most, plane.data(), plane.size());
    return ZSTD_isError(bytes) ? 0 : bytes;
  }

  const ZstdCompressor compressor_;
  const ZstdDecompressor decompressor_;
  std::vector<std::byte> scratch_;
};

}  // namespace

std::unique_ptr<PayloadCodec> make_plane_codec(int zstd_level) {
  return std::make_unique<PlaneCodec>(zstd_level);
}

}  // namespace terrace::storage
