// What a client and its spaces share, on any thread. Spaces may outlive their client.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "client/call.h"
#include "client/connection_state.h"
#include "client/engine.h"
#include "client/task_queue.h"

namespace terrace::client {

struct SharedConnection {
  explicit SharedConnection(PayloadPath path) : payload(path) {}

  const PayloadPath payload;
  TaskQueue queue;
  ConnectionState state;
  std::atomic<WireLease> last_wire_lease{0};
  std::atomic<SpaceNumber> last_space{0};
  std::atomic<LeaseId> last_lease{0};

  // Has the connection's thread start something, unless there is no connection or no time.
  template <typename T, typename Start>
  Result<std::shared_ptr<Call<T>>> begin(Deadline deadline, Start start) {
    if (const Status status = state.check(); !status.ok()) return error(status);
    if (Deadline::clock::now() >= deadline)
      return error(StatusCode::deadline_exceeded, "no time was left to ask terraced");
    auto call = std::make_shared<Call<T>>();
    const bool posted =
        queue.post([start, answer = Answer<T>(call)](Engine& engine) { start(engine, answer); });
    if (!posted) return error(StatusCode::unavailable, "the client has been closed");
    return call;
  }

  // Waits for its answer, or the deadline.
  template <typename T>
  Result<T> finish(Call<T>& call, Deadline deadline) {
    if (auto result = call.wait(deadline)) return std::move(*result);
    queue.post([](Engine& engine) { engine.suspect_stall(); });
    return error(StatusCode::deadline_exceeded, "terraced did not answer in time");
  }

  template <typename T, typename Start>
  Result<T> ask(Deadline deadline, Start start) {
    auto call = begin<T>(deadline, std::move(start));
    if (!call) return error(call.error());
    return finish(**call, deadline);
  }
};

}  // namespace terrace::client
