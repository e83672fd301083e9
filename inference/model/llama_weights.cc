#include "inference/model/llama_weights.h"

#include <atomic>
#include <mutex>
#include <new>
#include <utility>

namespace terrace::inference {

namespace {

// One matrix to pack, and where it goes.
struct PackJob {
  std::vector<const gguf::Tensor*> stacked;
  PackedMatrix* destination;
};

void read_vectors(const LlamaLayerTensors& from, LlamaLayerWeights& to) {
  to.attention_norm = read_vector(from.attention_norm);
  to.feed_forward_norm = read_vector(from.feed_forward_norm);
  LlamaLayerBiases biases = read_biases(from);
  to.query_key_value_bias = std::move(biases.query_key_value);
  to.attention_output_bias = std::move(biases.attention_output);
  to.gate_up_bias = std::move(biases.gate_up);
  to.down_bias = std::move(biases.down);
}

Status pack_one(const PackJob& job, const KernelTable& kernels, Compute compute) {
  try {
    auto packed = pack(kernels, compute, job.stacked);
    if (!packed) return packed.error().with_context("the tensor " + job.stacked.front()->name);
    *job.destination = std::move(*packed);
    return {};
  } catch (const std::bad_alloc&) {
    return {StatusCode::resource_exhausted,
            "no memory for the weights of the tensor " + job.stacked.front()->name};
  }
}

// The threads take matrices from a counter: they differ in size and in the work to expand them.
Status pack_all(std::span<const PackJob> jobs, const KernelTable& kernels, Compute compute,
                Team& team, const std::function<void(double)>& progress) {
  std::atomic<std::size_t> next{0}, done{0};
  std::mutex mutex;
  Status first_error;
  team.run([&](TeamMember member) {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      Status status = pack_one(jobs[i], kernels, compute);
      if (!status.ok()) {
        const std::lock_guard lock(mutex);
        if (first_error.ok()) first_error = std::move(status);
        next = jobs.size();
      }
      const std::size_t finished = ++done;
      if (member.thread() == 0 && progress)
        progress(static_cast<double>(finished) / static_cast<double>(jobs.size()));
    }
  });
  if (first_error.ok() && progress) progress(1);
  return first_error;
}

}  // namespace

EmbeddingTable::EmbeddingTable(const gguf::Tensor& tensor)
    : type_(tensor.type),
      width_(tensor.dims[0]),
      row_bytes_(tensor.row_bytes()),
      data_(tensor.data.begin(), tensor.data.end()) {}

void EmbeddingTable::look_up(Token token, float* out) const {
  gguf::dequantize(type_, data_.data() + static_cast<std::size_t>(token) * row_bytes_, width_, out);
}

std::uint64_t LlamaWeights::bytes() const {
  std::uint64_t total = embedding.bytes() + head.bytes() + output_norm.size() * sizeof(float);
  for (const LlamaLayerWeights& layer : layers) {
    for (const PackedMatrix* matrix :
         {&layer.query_key_value, &layer.attention_output, &layer.gate_up, &layer.down})
      total += matrix->bytes();
    for (const std::vector<float>* vector :
         {&layer.attention_norm, &layer.feed_forward_norm, &layer.query_key_value_bias,
          &layer.attention_output_bias, &layer.gate_up_bias, &layer.down_bias})
      total += vector->size() * sizeof(float);
  }
  return total;
}

Result<LlamaWeights> load_llama_weights(const LlamaTensors& tensors, const KernelTable& kernels,
                                        Compute compute, Team& team,
                                        const std::function<void(double)>& progress) {
  LlamaWeights weights;
  weights.layers.resize(tensors.layers.size());
  weights.embedding = EmbeddingTable(tensors.token_embedding);
  weights.output_norm = read_vector(tensors.output_norm);
  // The head first: it is by far the largest, and the others fill the gaps.
  std::vector<PackJob> jobs = {{{&tensors.output}, &weights.head}};
  for (std::size_t i = 0; i < tensors.layers.size(); ++i) {
    const LlamaLayerTensors& from = tensors.layers[i];
    LlamaLayerWeights& to = weights.layers[i];
    read_vectors(from, to);
    jobs.push_back({{&from.query, &from.key, &from.value}, &to.query_key_value});
    jobs.push_back({{&from.attention_output}, &to.attention_output});
    jobs.push_back({{&from.gate, &from.up}, &to.gate_up});
    jobs.push_back({{&from.down}, &to.down});
  }
  if (Status status = pack_all(jobs, kernels, compute, team, progress); !status.ok())
    return error(std::move(status));
  return weights;
}

}  // namespace terrace::inference
