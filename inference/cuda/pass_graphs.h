// Passes that come again and again, launched as one graph each: a decode step is some hundred
// kernels of a few microseconds.
#pragma once

#include <cstddef>
#include <functional>
#include <map>

#include "core/cuda/device.h"
#include "core/status.h"
#include "inference/cuda/pass_plan.h"

namespace terrace::inference::gpu {

class PassGraphs {
 public:
  // Shapes held at a time; when one more comes, all are forgotten.
  static constexpr std::size_t max_graphs = 64;

  explicit PassGraphs(const cuda::Device& device) : device_(device) {}
  ~PassGraphs() { forget(); }
  PassGraphs(const PassGraphs&) = delete;
  PassGraphs& operator=(const PassGraphs&) = delete;

  // Puts what `enqueue` puts on the stream for a pass of this shape: itself the first time, as a
  // graph from the second on. What it puts there must depend on the shape alone. Where the driver
  // cannot capture it, it is launched without a graph, then and later.
  Status launch(const PassShape& shape, cuda::StreamHandle stream,
                const std::function<Status()>& enqueue);
  // Addresses that graphs hold are no longer right. Nothing is under way.
  void forget();

 private:
  Status capture(cuda::StreamHandle stream, const std::function<Status()>& enqueue,
                 cuda::GraphExecHandle& executable);

  const cuda::Device& device_;
  std::map<PassShape, cuda::GraphExecHandle> graphs_;  // null: seen once
  bool works_ = true;
};

}  // namespace terrace::inference::gpu
