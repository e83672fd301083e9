#include "inference/cuda/cuda_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/bytes.h"
#include "inference/cuda/kernels/group.h"

namespace terrace::inference::gpu {

namespace {

// What is sent at a time, while the CPU expands the next.
constexpr std::size_t staged_bytes = 16 * mib;
constexpr std::size_t part_alignment = 256;

// Rows of matrices one below the other, or a vector; and where its address goes.
struct Part {
  std::vector<const gguf::Tensor*> matrices;
  std::vector<float> vector;
  DeviceAddress* address;
  std::size_t offset = 0;

  std::size_t bytes() const {
    std::size_t total = vector.size() * sizeof(float);
    for (const gguf::Tensor* matrix : matrices)
      total += matrix->rows() * matrix->dims[0] * sizeof(Bf16);
    return total;
  }
};

class Parts {
 public:
  Parts(const LlamaTensors& tensors, CudaWeights& weights) {
    weights.layers.resize(tensors.layers.size());
    add_matrix({&tensors.token_embedding}, weights.embedding);
    add_vector(read_vector(tensors.output_norm), weights.output_norm);
    if (!tensors.tied_output) add_matrix({&tensors.output}, weights.head);
    for (std::size_t i = 0; i < tensors.layers.size(); ++i) {
      const LlamaLayerTensors& from = tensors.layers[i];
      CudaLayerWeights& to = weights.layers[i];
      add_vector(read_vector(from.attention_norm), to.attention_norm);
      add_matrix({&from.query, &from.key, &from.value}, to.query_key_value);
      add_matrix({&from.attention_output}, to.attention_output);
      add_vector(read_vector(from.feed_forward_norm), to.feed_forward_norm);
      add_matrix({&from.gate, &from.up}, to.gate_up);
      add_matrix({&from.down}, to.down);
      LlamaLayerBiases biases = read_biases(from);
      add_vector(std::move(biases.query_key_value), to.query_key_value_bias);
      add_vector(std::move(biases.attention_output), to.attention_output_bias);
      add_vector(std::move(biases.gate_up), to.gate_up_bias);
      add_vector(std::move(biases.down), to.down_bias);
    }
  }
  const std::vector<Part>& all() const { return parts_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void add_matrix(std::vector<const gguf::Tensor*> matrices, DeviceAddress& address) {
    add(Part{std::move(matrices), {}, &address});
  }
  void add_vector(std::vector<float> vector, DeviceAddress& address) {
    if (!vector.empty()) add(Part{{}, std::move(vector), &address});
  }
  void add(Part part) {
    part.offset = bytes_;
    bytes_ += round_up(part.bytes(), part_alignment);
    parts_.push_back(std::move(part));
  }

  std::vector<Part> parts_;
  std::size_t bytes_ = 0;
};

// Sends through two page-locked buffers in turn, each with a stream of its own.
class Sender {
 public:
  static Result<std::unique_ptr<Sender>> create(const cuda::Device& device) {
    auto sender = std::unique_ptr<Sender>(new Sender(device));
    for (int i = 0; i < 2; ++i) {
      auto buffer = PinnedBuffer::allocate(device, staged_bytes);
      if (!buffer) return error(buffer.error());
      auto stream = Stream::create(device);
      if (!stream) return error(stream.error());
      sender->lanes_.push_back({std::move(*buffer), std::move(*stream)});
    }
    return sender;
  }

  // A buffer of staged_bytes to fill; then send() it.
  Result<std::byte*> next() {
    if (Status status = lane().stream.wait(); !status.ok()) return error(std::move(status));
    return lane().buffer.data();
  }
  Status send(DeviceAddress to, std::size_t bytes) {
    const Status status =
        cuda::to_status(device_.api(),
                        device_.api().memcpy_host_to_device_async(to, lane().buffer.data(), bytes,
                                                                  lane().stream.handle()),
                        "could not send weights to " + device_.name());
    turn_ = 1 - turn_;
    return status;
  }
  Status finish() {
    for (const Lane& each : lanes_)
      if (Status status = each.stream.wait(); !status.ok()) return status;
    return {};
  }

 private:
  struct Lane {
    PinnedBuffer buffer;
    Stream stream;
  };
  explicit Sender(const cuda::Device& device) : device_(device) {}
  Lane& lane() { return lanes_[turn_]; }

  const cuda::Device& device_;
  std::vector<Lane> lanes_;
  std::size_t turn_ = 0;
};

// Rows [first, first + rows) of a matrix in BF16.
void expand_rows(const gguf::Tensor& matrix, std::size_t first, std::size_t rows, Team& team,
                 std::byte* to) {
  const std::size_t width = matrix.dims[0];
  team.run([&](TeamMember member) {
    auto* const row = reinterpret_cast<float*>(member.scratch(width * sizeof(float)));
    const Range mine = split(rows, member);
    for (std::size_t r = mine.begin; r < mine.end; ++r) {
      gguf::dequantize(matrix.type, matrix.data.data() + (first + r) * matrix.row_bytes(), width,
                       row);
      auto* const out = reinterpret_cast<Bf16*>(to) + r * width;
      for (std::size_t i = 0; i < width; ++i) out[i] = to_bf16(row[i]);
    }
  });
}

Status send_matrix(const gguf::Tensor& matrix, DeviceAddress to, Team& team, Sender& sender) {
  const std::size_t row_bytes = matrix.dims[0] * sizeof(Bf16);
  const std::size_t at_once = std::max<std::size_t>(1, staged_bytes / row_bytes);
  for (std::size_t first = 0; first < matrix.rows(); first += at_once) {
    const std::size_t rows = std::min<std::size_t>(at_once, matrix.rows() - first);
    const auto staged = sender.next();
    if (!staged) return staged.error();
    expand_rows(matrix, first, rows, team, *staged);
    if (Status status = sender.send(to + first * row_bytes, rows * row_bytes); !status.ok())
      return status;
  }
  return {};
}

Status send_part(const Part& part, DeviceAddress to, Team& team, Sender& sender) {
  for (const gguf::Tensor* matrix : part.matrices) {
    if (Status status = send_matrix(*matrix, to, team, sender); !status.ok()) return status;
    to += matrix->rows() * matrix->dims[0] * sizeof(Bf16);
  }
  if (part.vector.empty()) return {};
  const auto staged = sender.next();
  if (!staged) return staged.error();
  const std::size_t bytes = part.vector.size() * sizeof(float);
  std::memcpy(*staged, part.vector.data(), bytes);
  return sender.send(to, bytes);
}

// The longest row there may be goes through a buffer whole.
static_assert(max_feed_forward * sizeof(float) <= staged_bytes);

}  // namespace

std::uint64_t cuda_weight_bytes(const LlamaTensors& tensors) {
  CudaWeights weights;
  return Parts(tensors, weights).bytes();
}

Result<CudaWeights> load_cuda_weights(const LlamaTensors& tensors, const CudaRuntime& runtime,
                                      Team& team, const std::function<void(double)>& progress) {
  CudaWeights weights;
  const Parts parts(tensors, weights);
  auto memory = DeviceBuffer::allocate(*runtime.device, parts.bytes(), "the weights");
  if (!memory) return error(memory.error());
  weights.memory = std::move(*memory);
  auto sender = Sender::create(*runtime.device);
  if (!sender) return error(sender.error());
  std::size_t sent = 0;
  for (const Part& part : parts.all()) {
    *part.address = weights.memory.address() + part.offset;
    if (Status status = send_part(part, *part.address, team, **sender); !status.ok())
      return error(std::move(status));
    sent += part.bytes();
    if (progress) progress(static_cast<double>(sent) / static_cast<double>(parts.bytes()));
  }
  if (Status status = (*sender)->finish(); !status.ok()) return error(std::move(status));
  if (progress) progress(1);
  if (tensors.tied_output) weights.head = weights.embedding;
  return weights;
}

}  // namespace terrace::inference::gpu
