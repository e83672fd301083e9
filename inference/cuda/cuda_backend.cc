#include "inference/cuda/cuda_backend.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <new>
#include <numbers>
#include <utility>

#include "core/bytes.h"

namespace terrace::inference::gpu {

namespace {

// Logits that the device holds at a time; of a longer pass they come in turns.
constexpr std::size_t max_logit_rows = 256;
// Passes of more rows gain nothing from a graph.
constexpr std::size_t max_graph_rows = 256;
// For partial results of attention; passes that would need more of it are cut less.
constexpr std::size_t partial_memory_bytes = 64 * mib;
constexpr std::size_t first_plan_bytes = 1 * mib;
constexpr std::size_t buffer_alignment = 256;

std::size_t qkv_width(const LlamaConfig& config) {
  return config.query_width() + 2 * std::size_t{config.kv_width()};
}

struct ActivationSizes {
  std::size_t residual, wide, operand, queries;

  explicit ActivationSizes(const CudaSettings& settings) {
    const LlamaConfig& config = settings.config;
    const std::size_t rows = padded_rows(settings.max_rows);
    const std::size_t gate_up = 2 * std::size_t{config.feed_forward};
    const std::size_t input =
        std::max({config.embedding, config.query_width(), config.feed_forward});
    const auto bytes = [&](std::size_t width, std::size_t value) {
      return round_up(rows * width * value, buffer_alignment);
    };
    residual = bytes(config.embedding, sizeof(float));
    wide = bytes(std::max(qkv_width(config), gate_up), sizeof(float));
    operand = bytes(input, sizeof(Bf16));
    queries = bytes(std::size_t{config.heads} * settings.geometry.padded_head_dim(), sizeof(Bf16));
  }
  std::size_t total() const { return residual + wide + operand + queries; }
};

std::size_t slot_bytes(const CudaSettings& settings) {
  return settings.config.heads * std::size_t{partial_floats(settings.geometry.padded_head_dim())} *
         sizeof(float);
}

std::size_t logit_capacity(const CudaSettings& settings) {
  return std::min(padded_rows(settings.max_rows), max_logit_rows);
}

template <typename T>
T* at(DeviceAddress address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace

CudaMemoryNeed memory_need(const CudaSettings& settings, std::uint64_t weight_bytes) {
  return {.weights = weight_bytes,
          .activations = ActivationSizes(settings).total() + first_plan_bytes,
          .logits = logit_capacity(settings) * settings.config.vocabulary * sizeof(float),
          .partials = partial_memory_bytes,
          .products = matmul_workspace_bytes};
}

// Puts kernels and products of one pass on the stream, until the first that cannot be.
class CudaBackend::Launcher {
 public:
  Launcher(CudaBackend& backend, std::size_t rows) : backend_(backend), rows_(rows) {}

  const Status& status() const { return status_; }

  // A block of threads a row.
  template <typename Args>
  void rows(cuda::FunctionHandle kernel, const Args& args) {
    launch(kernel, static_cast<unsigned>(rows_), 1, row_threads, args);
  }
  template <typename Args>
  void launch(cuda::FunctionHandle kernel, std::size_t grid_x, unsigned grid_y, unsigned threads,
              const Args& args) {
    if (status_.ok())
      status_ = backend_.kernels_->launch(kernel, static_cast<unsigned>(grid_x), grid_y, threads,
                                          args, backend_.stream_.handle());
  }
  void norm(DeviceAddress weight, const std::uint32_t* rows_of = nullptr) {
    const LlamaConfig& config = backend_.settings_.config;
    rows(backend_.kernels_->rms_norm, RmsNormArgs{.x = at<float>(backend_.residual_),
                                                  .weight = at<float>(weight),
                                                  .out = at<Bf16>(backend_.operand_),
                                                  .rows = rows_of,
                                                  .width = config.embedding,
                                                  .epsilon = config.rms_epsilon});
  }
  // y = or += the operand times a matrix, plus a bias if there is one.
  void multiply(DeviceAddress weight, DeviceAddress bias, DeviceAddress y, std::size_t inputs,
                std::size_t outputs, bool add = false) {
    if (status_.ok())
      status_ = backend_.matmul_->multiply(weight, backend_.operand_, y, rows_, inputs, outputs,
                                           add, backend_.stream_.handle());
    if (bias)
      rows(backend_.kernels_->add_bias, AddBiasArgs{.y = at<float>(y),
                                                    .bias = at<float>(bias),
                                                    .width = static_cast<std::uint32_t>(outputs)});
  }

 private:
  CudaBackend& backend_;
  std::size_t rows_;
  Status status_;
};

Result<std::unique_ptr<CudaBackend>> CudaBackend::create(std::shared_ptr<const CudaRuntime> runtime,
                                                         const CudaSettings& settings,
                                                         CudaWeights weights,
                                                         std::vector<double> rope_frequencies) {
  auto stream = Stream::create(*runtime->device);
  if (!stream) return error(stream.error());
  std::unique_ptr<CudaBackend> backend(
      new CudaBackend(std::move(runtime), settings, std::move(weights), std::move(rope_frequencies),
                      std::move(*stream)));
  if (Status status = backend->allocate(); !status.ok()) return error(std::move(status));
  return backend;
}

CudaBackend::CudaBackend(std::shared_ptr<const CudaRuntime> runtime, const CudaSettings& settings,
                         CudaWeights weights, std::vector<double> rope_frequencies, Stream stream)
    : runtime_(std::move(runtime)),
      settings_(settings),
      weights_(std::move(weights)),
      plan_(settings.config, settings.geometry,
            {.partial_slots = partial_memory_bytes / slot_bytes(settings),
             .shared_prefixes = settings.shared_prefixes},
            std::move(rope_frequencies)),
      stream_(std::move(stream)),
      graphs_(*runtime_->device) {
  const KvGeometry& geometry = settings.geometry;
  strides_.head_bytes = geometry.chunks() * geometry.tile_bytes();
  strides_.value_bytes = geometry.kv_heads * strides_.head_bytes;
  strides_.layer_bytes = 2 * strides_.value_bytes;
}

Status CudaBackend::allocate() {
  auto kernels = Kernels::load(*runtime_);
  if (!kernels) return kernels.error();
  kernels_ = std::move(*kernels);
  auto matmul = Matmul::create(*runtime_->blas, *runtime_->device);
  if (!matmul) return matmul.error();
  matmul_ = std::move(*matmul);
  auto kv_memory = CudaKvMemory::create(*runtime_, *kernels_);
  if (!kv_memory) return kv_memory.error();
  kv_memory_ = std::move(*kv_memory);

  const CudaMemoryNeed need = memory_need(settings_, 0);
  const ActivationSizes sizes(settings_);
  const auto take = [&](DeviceBuffer& buffer, std::size_t bytes, const char* use) -> Status {
    auto taken = DeviceBuffer::allocate(*runtime_->device, bytes, use);
    if (taken) buffer = std::move(*taken);
    return taken ? Status() : taken.error();
  };
  Status status = take(activations_, sizes.total(), "activations");
  if (status.ok()) status = take(logits_, need.logits, "logits");
  if (status.ok()) status = take(partials_, need.partials, "partial results of attention");
  residual_ = activations_.address();
  wide_ = residual_ + sizes.residual;
  operand_ = wide_ + sizes.wide;
  queries_ = operand_ + sizes.operand;
  return status;
}

Status CudaBackend::send_plan() {
  const std::size_t bytes = plan_.layout().bytes;
  if (bytes > plan_memory_.size()) {
    const std::size_t larger = std::max(first_plan_bytes, std::bit_ceil(bytes));
    auto memory = DeviceBuffer::allocate(*runtime_->device, larger, "the plan of a pass");
    if (!memory) return memory.error();
    auto staged = PinnedBuffer::allocate(*runtime_->device, larger);
    if (!staged) return staged.error();
    graphs_.forget();
    plan_memory_ = std::move(*memory);
    staged_plan_ = std::move(*staged);
  }
  plan_.write(staged_plan_.data());
  return cuda::to_status(runtime_->device->api(),
                         runtime_->device->api().memcpy_host_to_device_async(
                             plan_memory_.address(), staged_plan_.data(), bytes, stream_.handle()),
                         "could not send the plan of a pass");
}

Status CudaBackend::run(std::span<const PassPiece> pieces, std::span<const std::size_t> logit_rows,
                        float* logits) {
  if (Status status = runtime_->device->make_current(); !status.ok()) return status;
  try {
    plan_.make(pieces, logit_rows);
  } catch (const std::bad_alloc&) {
    return {StatusCode::resource_exhausted, "no memory for the plan of a pass"};
  }
  const std::size_t capacity = logit_capacity(settings_);
  const std::size_t width = settings_.config.vocabulary;
  const bool decodes =
      std::ranges::all_of(pieces, [](const PassPiece& piece) { return piece.tokens.size() == 1; });
  Status status = send_plan();
  const auto fetch = [&](std::size_t first, std::size_t rows) {
    if (!status.ok() || rows == 0) return;
    status = cuda::to_status(runtime_->device->api(),
                             runtime_->device->api().memcpy_device_to_host_async(
                                 logits + first * width, logits_.address(),
                                 rows * width * sizeof(float), stream_.handle()),
                             "could not fetch logits");
  };
  if (status.ok() && decodes && pieces.size() <= max_graph_rows && logit_rows.size() <= capacity) {
    status = graphs_.launch(plan_.shape(), stream_.handle(), [&] {
      Status layers = enqueue_layers();
      return layers.ok() ? enqueue_head(0, plan_.shape().logit_rows) : layers;
    });
    fetch(0, logit_rows.size());
  } else {
    if (status.ok()) status = enqueue_layers();
    for (std::size_t first = 0; first < logit_rows.size() && status.ok(); first += capacity) {
      const std::size_t rows = std::min(capacity, logit_rows.size() - first);
      status = enqueue_head(first, padded_rows(rows));
      fetch(first, rows);
    }
  }
  // Whatever went wrong, nothing is under way afterwards.
  const Status done = stream_.wait();
  return status.ok() ? done : status;
}

Status CudaBackend::enqueue_layers() {
  const PassLayout layout = plan_.layout();
  Launcher launch(*this, plan_.shape().rows);
  launch.rows(kernels_->embed, EmbedArgs{.tokens = sent<std::int32_t>(layout.tokens),
                                         .table = at<Bf16>(weights_.embedding),
                                         .residual = at<float>(residual_),
                                         .width = settings_.config.embedding});
  for (std::uint32_t layer = 0; layer < settings_.config.layers; ++layer) {
    attention_layer(launch, layer);
    feed_forward_layer(launch, layer);
  }
  return launch.status();
}

void CudaBackend::attention_layer(Launcher& launch, std::uint32_t index) {
  const LlamaConfig& config = settings_.config;
  const CudaLayerWeights& layer = weights_.layers[index];
  const PassLayout layout = plan_.layout();
  const std::uint32_t padded_dim = settings_.geometry.padded_head_dim();

  launch.norm(layer.attention_norm);
  launch.multiply(layer.query_key_value, layer.query_key_value_bias, wide_, config.embedding,
                  qkv_width(config));
  launch.rows(kernels_->rope_store, RopeStoreArgs{.qkv = at<float>(wide_),
                                                  .angles = sent<float>(layout.angles),
                                                  .places = sent<RowPlace>(layout.places),
                                                  .q = at<Bf16>(queries_),
                                                  .strides = strides_,
                                                  .layer = index,
                                                  .heads = config.heads,
                                                  .kv_heads = config.kv_heads,
                                                  .head_dim = config.head_dim,
                                                  .padded_dim = padded_dim,
                                                  .rope_dims = config.rope_dims});
  const AttendArgs attend{
      .items = sent<AttendItem>(layout.items),
      .item_count = sent<std::uint32_t>(layout.item_count),
      .rows = sent<std::uint32_t>(layout.listed_rows),
      .chunks = sent<const std::byte*>(layout.chunks),
      .places = sent<RowPlace>(layout.places),
      .first_partial = sent<std::uint32_t>(layout.first_partial),
      .q = at<Bf16>(queries_),
      .partials = at<float>(partials_.address()),
      .out = at<Bf16>(operand_),
      .strides = strides_,
      .layer = index,
      .heads = config.heads,
      .kv_heads = config.kv_heads,
      .head_dim = config.head_dim,
      .padded_dim = padded_dim,
      .scale = static_cast<float>(std::numbers::log2e /
                                  std::sqrt(static_cast<double>(config.head_dim)))};
  launch.launch(padded_dim <= 64    ? kernels_->attend_64
                : padded_dim <= 128 ? kernels_->attend_128
                                    : kernels_->attend_256,
                plan_.shape().items / attend_warps, config.kv_heads, attend_warps * warp_threads,
                attend);
  if (plan_.shape().partials)
    launch.launch(kernels_->merge, plan_.shape().rows, config.heads, warp_threads,
                  MergeArgs{.partials = at<float>(partials_.address()),
                            .first_partial = sent<std::uint32_t>(layout.first_partial),
                            .partial_count = sent<std::uint32_t>(layout.partial_count),
                            .out = at<Bf16>(operand_),
                            .heads = config.heads,
                            .head_dim = config.head_dim,
                            .padded_dim = padded_dim});
  launch.multiply(layer.attention_output, layer.attention_output_bias, residual_,
                  config.query_width(), config.embedding, /*add=*/true);
}

void CudaBackend::feed_forward_layer(Launcher& launch, std::uint32_t index) {
  const LlamaConfig& config = settings_.config;
  const CudaLayerWeights& layer = weights_.layers[index];
  launch.norm(layer.feed_forward_norm);
  launch.multiply(layer.gate_up, layer.gate_up_bias, wide_, config.embedding,
                  2 * std::size_t{config.feed_forward});
  launch.rows(kernels_->silu_up, SiluUpArgs{.gate_up = at<float>(wide_),
                                            .out = at<Bf16>(operand_),
                                            .width = config.feed_forward});
  launch.multiply(layer.down, layer.down_bias, residual_, config.feed_forward, config.embedding,
                  /*add=*/true);
}

Status CudaBackend::enqueue_head(std::size_t first, std::size_t rows) {
  if (rows == 0) return {};
  const LlamaConfig& config = settings_.config;
  Launcher launch(*this, rows);
  launch.norm(weights_.output_norm, sent<std::uint32_t>(plan_.layout().logit_rows) + first);
  launch.multiply(weights_.head, 0, logits_.address(), config.embedding, config.vocabulary);
  return launch.status();
}

}  // namespace terrace::inference::gpu
