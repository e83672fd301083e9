// Called by core/checksum.cc where the processor has AVX2, and nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace {

std::uint64_t xxh3_avx2(const void* bytes, std::size_t count);

}  // namespace terrace
