#include "tests/inference/cuda/fake_gpu.h"

#include <cstring>
#include <vector>

#include "inference/cuda/kernels/attend_body.h"
#include "inference/cuda/kernels/row_bodies.h"
#include "tests/inference/cuda/host_group.h"
#include "tests/storage/cuda/fake_cuda.h"

namespace terrace::inference::gpu {

struct LtContext {};
struct LtMatmulDescription {
  int compute_type, scale_type;
  std::int32_t transpose_a = 0;
};
struct LtMatrixLayout {
  int type;
  std::uint64_t rows, columns;
  std::int64_t pitch;
};
struct LtMatmulPreference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reduction_schemes = ~0u;
};

namespace fake {

namespace {

namespace driver = cuda::fake;

constexpr BlasStatus invalid_value = 7, not_supported = 15;
// What the stand-in's algorithm is and wants, so that both have to be handed on.
constexpr std::uint64_t algorithm_mark = 0x7e44ace;
constexpr std::size_t algorithm_workspace_bytes = 4096;

std::size_t blas_objects = 0;

template <class Group, class Args, void (*body)(Group&, const Args&)>
void run_blocks(const driver::Launch& launch, const void* arguments) {
  const auto& args = *static_cast<const Args*>(arguments);
  for (unsigned y = 0; y < launch.grid_y; ++y)
    for (unsigned x = 0; x < launch.grid_x; ++x) {
      Group group(x, y);
      body(group, args);
    }
}

using Block = HostGroup<row_threads>;
using Warp = HostGroup<warp_threads>;

template <class Args, void (*body)(Block&, const Args&)>
void add_row_kernel() {
  driver::add_kernel(Args::name, sizeof(Args),
                     [](const driver::Launch& launch, const void* arguments) {
                       if (launch.threads == row_threads)
                         run_blocks<Block, Args, body>(launch, arguments);
                     });
}

template <int dims>
void add_attention(const char* name) {
  driver::add_kernel(name, sizeof(AttendArgs), [](driver::Launch launch, const void* arguments) {
    if (launch.threads != attend_warps * warp_threads) return;
    launch.grid_x *= attend_warps;
    run_blocks<Warp, AttendArgs, attend<dims, Warp>>(launch, arguments);
  });
}

template <class Handle>
BlasStatus give_back(Handle handle) {
  delete handle;
  --blas_objects;
  return blas_success;
}

// Column-major: [column][row].
void multiply_now(const LtMatrixLayout& a, const Bf16* a_values, const LtMatrixLayout& b,
                  const Bf16* b_values, const LtMatrixLayout& d, float* d_values, float alpha,
                  float beta) {
  const auto pitch = [](const LtMatrixLayout& layout) {
    return static_cast<std::size_t>(layout.pitch);
  };
  for (std::uint64_t column = 0; column < d.columns; ++column)
    for (std::uint64_t row = 0; row < d.rows; ++row) {
      float sum = 0;
      for (std::uint64_t k = 0; k < a.rows; ++k)
        sum += to_float(a_values[row * pitch(a) + k]) * to_float(b_values[column * pitch(b) + k]);
      float& value = d_values[column * pitch(d) + row];
      value = alpha * sum + (beta == 0 ? 0 : beta * value);
    }
}

// op(a) is a's transpose; a and b in BF16, c and d one matrix in F32.
bool fits(const LtMatmulDescription& matmul, const LtMatrixLayout& a, const LtMatrixLayout& b,
          const LtMatrixLayout& c, const LtMatrixLayout& d) {
  const auto same = [](const LtMatrixLayout& x, const LtMatrixLayout& y) {
    return x.type == y.type && x.rows == y.rows && x.columns == y.columns && x.pitch == y.pitch;
  };
  const auto wide_enough = [](const LtMatrixLayout& x) {
    return static_cast<std::uint64_t>(x.pitch) >= x.rows;
  };
  return matmul.compute_type == compute_f32 && matmul.scale_type == type_f32 &&
         matmul.transpose_a == operation_transposed && a.type == type_bf16 && b.type == type_bf16 &&
         c.type == type_f32 && same(c, d) && a.rows == b.rows && a.columns == d.rows &&
         b.columns == d.columns && wide_enough(a) && wide_enough(b) && wide_enough(d);
}

bool aligned(const void* pointer) {
  constexpr std::uintptr_t assumed_alignment = 256;
  return reinterpret_cast<std::uintptr_t>(pointer) % assumed_alignment == 0;
}

}  // namespace

void add_kernels() {
  add_row_kernel<EmbedArgs, embed<Block>>();
  add_row_kernel<RmsNormArgs, rms_norm<Block>>();
  add_row_kernel<AddBiasArgs, add_bias<Block>>();
  add_row_kernel<SiluUpArgs, silu_up<Block>>();
  add_row_kernel<RopeStoreArgs, rope_store<Block>>();
  add_row_kernel<CopyTokensArgs, copy_tokens<Block>>();
  add_attention<64>(AttendArgs::name_64);
  add_attention<128>(AttendArgs::name_128);
  add_attention<256>(AttendArgs::name_256);
  driver::add_kernel(MergeArgs::name, sizeof(MergeArgs),
                     run_blocks<Warp, MergeArgs, merge_partials<Warp>>);
}

BlasLtApi blas_lt() {
  BlasLtApi api{};
  api.create = [](LtHandle* handle) -> BlasStatus {
    ++blas_objects;
    *handle = new LtContext;
    return blas_success;
  };
  api.destroy = give_back<LtHandle>;
  api.get_version = [] { return std::size_t{130000}; };
  api.get_status_name = [](BlasStatus) { return "CUBLAS_STATUS_OF_THE_STAND_IN"; };
  api.matmul_create = [](MatmulHandle* matmul, int compute_type, int scale_type) -> BlasStatus {
    ++blas_objects;
    *matmul = new LtMatmulDescription{compute_type, scale_type};
    return blas_success;
  };
  api.matmul_destroy = give_back<MatmulHandle>;
  api.matmul_set_attribute = [](MatmulHandle matmul, int attribute, const void* value,
                                std::size_t bytes) -> BlasStatus {
    if (attribute != matmul_transpose_a || bytes != sizeof matmul->transpose_a)
      return invalid_value;
    std::memcpy(&matmul->transpose_a, value, bytes);
    return blas_success;
  };
  api.layout_create = [](LayoutHandle* layout, int type, std::uint64_t rows, std::uint64_t columns,
                         std::int64_t pitch) -> BlasStatus {
    ++blas_objects;
    *layout = new LtMatrixLayout{type, rows, columns, pitch};
    return blas_success;
  };
  api.layout_destroy = give_back<LayoutHandle>;
  api.preference_create = [](PreferenceHandle* preference) -> BlasStatus {
    ++blas_objects;
    *preference = new LtMatmulPreference;
    return blas_success;
  };
  api.preference_destroy = give_back<PreferenceHandle>;
  api.preference_set_attribute = [](PreferenceHandle preference, int attribute, const void* value,
                                    std::size_t bytes) -> BlasStatus {
    if (attribute == preference_workspace_bytes && bytes == sizeof preference->workspace_bytes) {
      std::memcpy(&preference->workspace_bytes, value, bytes);
    } else if (attribute == preference_reduction_schemes &&
               bytes == sizeof preference->reduction_schemes) {
      std::memcpy(&preference->reduction_schemes, value, bytes);
    } else {
      return invalid_value;
    }
    return blas_success;
  };
  api.find_algorithms = [](LtHandle, MatmulHandle matmul, LayoutHandle a, LayoutHandle b,
                           LayoutHandle c, LayoutHandle d, PreferenceHandle preference, int wanted,
                           HeuristicResult* results, int* found) -> BlasStatus {
    if (wanted < 1 || !fits(*matmul, *a, *b, *c, *d)) return not_supported;
    *found = preference->workspace_bytes >= algorithm_workspace_bytes &&
             preference->reduction_schemes == reduction_none;
    results[0] = {{{algorithm_mark}}, algorithm_workspace_bytes, blas_success, 1, {}};
    return blas_success;
  };
  api.matmul = [](LtHandle, MatmulHandle matmul, const void* alpha, const void* a, LayoutHandle as,
                  const void* b, LayoutHandle bs, const void* beta, const void* c, LayoutHandle cs,
                  void* d, LayoutHandle ds, const MatmulAlgorithm* algorithm, void* workspace,
                  std::size_t workspace_bytes, StreamHandle stream) -> BlasStatus {
    const bool room = workspace_bytes >= algorithm_workspace_bytes &&
                      driver::behind(reinterpret_cast<DeviceAddress>(workspace));
    if (c != d || !room || algorithm->data[0] != algorithm_mark ||
        !fits(*matmul, *as, *bs, *cs, *ds) || !aligned(a) || !aligned(b) || !aligned(d))
      return invalid_value;
    float by_alpha, by_beta;
    std::memcpy(&by_alpha, alpha, sizeof by_alpha);
    std::memcpy(&by_beta, beta, sizeof by_beta);
    // By value: layouts may be destroyed before it happens.
    driver::put_work(stream, [=, a_layout = *as, b_layout = *bs, d_layout = *ds] {
      multiply_now(a_layout, static_cast<const Bf16*>(a), b_layout, static_cast<const Bf16*>(b),
                   d_layout, static_cast<float*>(d), by_alpha, by_beta);
    });
    return blas_success;
  };
  return api;
}

std::size_t live_blas_objects() { return blas_objects; }

}  // namespace fake
}  // namespace terrace::inference::gpu
