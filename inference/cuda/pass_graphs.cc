#include "inference/cuda/pass_graphs.h"

namespace terrace::inference::gpu {

Status PassGraphs::launch(const PassShape& shape, cuda::StreamHandle stream,
                          const std::function<Status()>& enqueue) {
  if (!works_) return enqueue();
  auto found = graphs_.find(shape);
  if (found == graphs_.end()) {
    // The first time libraries load what they need, which a capture does not allow them.
    if (graphs_.size() >= max_graphs) forget();
    graphs_.emplace(shape, nullptr);
    return enqueue();
  }
  if (!found->second) {
    const Status captured = capture(stream, enqueue, found->second);
    if (!captured.ok()) {
      works_ = false;
      forget();
      return enqueue();
    }
  }
  return cuda::to_status(device_.api(), device_.api().graph_launch(found->second, stream),
                         "could not launch a pass");
}

Status PassGraphs::capture(cuda::StreamHandle stream, const std::function<Status()>& enqueue,
                           cuda::GraphExecHandle& executable) {
  const cuda::DriverApi& api = device_.api();
  const char* const what = "could not capture a pass";
  if (const auto code = api.stream_begin_capture(stream, cuda::capture_thread_local))
    return cuda::to_status(api, code, what);
  Status status = enqueue();
  // In any case: a stream that is captured does nothing.
  cuda::GraphHandle graph = nullptr;
  const auto ended = api.stream_end_capture(stream, &graph);
  if (status.ok()) status = cuda::to_status(api, ended, what);
  if (status.ok())
    status = cuda::to_status(api, api.graph_instantiate(&executable, graph, 0), what);
  if (graph) (void)api.graph_destroy(graph);
  return status;
}

void PassGraphs::forget() {
  if (graphs_.empty()) return;
  (void)device_.make_current();
  for (const auto& [shape, executable] : graphs_)
    if (executable) (void)device_.api().graph_exec_destroy(executable);
  graphs_.clear();
}

}  // namespace terrace::inference::gpu
