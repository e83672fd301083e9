// What a CUDA accelerator must do, whatever its driver: the stand-in in the tests, the real one in
// tests/gpu.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/checksum.h"
#include "storage/device/accelerator.h"

namespace terrace::storage {

// Counts notifications, so that one thread can wait for completions.
class CompletionWaiter {
 public:
  explicit CompletionWaiter(Accelerator& accelerator) : accelerator_(accelerator) {
    accelerator_.set_notify([this] {
      const std::lock_guard lock(mutex_);
      ++notified_;
      changed_.notify_all();
    });
  }
  ~CompletionWaiter() { accelerator_.set_notify(nullptr); }
  CompletionWaiter(const CompletionWaiter&) = delete;
  CompletionWaiter& operator=(const CompletionWaiter&) = delete;

  // Waits until `count` completions have come; by ticket.
  std::map<std::uint64_t, CopyCompletion> wait(std::size_t count) {
    std::map<std::uint64_t, CopyCompletion> done;
    std::uint64_t seen = 0;
    for (;;) {
      std::vector<CopyCompletion> taken;
      accelerator_.take_completions(taken);
      for (CopyCompletion& one : taken) done.emplace(one.ticket, std::move(one));
      if (done.size() >= count) return done;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return notified_ != seen; });
      seen = notified_;
    }
  }

 private:
  Accelerator& accelerator_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t notified_ = 0;
};

inline std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> words(count / sizeof(std::uint64_t) + 1);
  for (std::uint64_t& word : words) word = random();
  const auto bytes = std::as_bytes(std::span(words)).first(count);
  return {bytes.begin(), bytes.end()};
}

// Copies blocks of every kind of size to the device, around on it and back, and checks them there.
// ok, or the first thing that was wrong: an error of the accelerator as it is, or internal.
inline Status check_accelerator(Accelerator& accelerator, DeviceMemory& memory,
                                std::vector<std::size_t> sizes = {}) {
  if (sizes.empty())
    sizes = {1, 240, 241, 4096, 16384, 16392, 16384 + 99, 720 << 10, (1 << 20) - 4096, 3 << 20};
  CompletionWaiter waiter(accelerator);
  std::vector<std::vector<std::byte>> sources;
  std::vector<std::size_t> places;
  std::size_t place = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sources.push_back(random_bytes(sizes[i], i));
    places.push_back(place);
    place += (sizes[i] + 4095) / 4096 * 4096;
  }
  const std::size_t second = place;  // the same once more behind
  if (2 * place > memory.size()) return {StatusCode::internal, "too little memory to check"};

  const auto step = [&](const char* what, auto&& start) -> Status {
    for (std::uint64_t i = 0; i < sizes.size(); ++i) start(i);
    const auto done = waiter.wait(sizes.size());
    for (std::uint64_t i = 0; i < sizes.size(); ++i) {
      const auto found = done.find(i);
      const std::string where = std::string(what) + " of " + std::to_string(sizes[i]) + " bytes";
      if (found == done.end()) return {StatusCode::internal, where + ": no completion"};
      if (!found->second.status.ok()) return found->second.status;
      if (found->second.checksum != payload_checksum(sources[i]))
        return {StatusCode::internal, where + ": another checksum"};
    }
    return {};
  };
  const auto on_device = [&](std::size_t begin, std::uint64_t i) {
    return std::span<std::byte>(memory.data() + begin + places[i], sizes[i]);
  };
  std::vector<std::vector<std::byte>> back;
  for (const std::size_t size : sizes) back.emplace_back(size);

  if (Status status = step(
          "a copy to the device",
          [&](std::uint64_t i) { accelerator.copy_async(i, on_device(0, i).data(), sources[i]); });
      !status.ok())
    return status;
  if (Status status =
          step("a check on the device",
               [&](std::uint64_t i) { accelerator.checksum_async(i, on_device(0, i)); });
      !status.ok())
    return status;
  if (Status status = step("a copy on the device",
                           [&](std::uint64_t i) {
                             accelerator.copy_async(i, on_device(second, i).data(),
                                                    on_device(0, i));
                           });
      !status.ok())
    return status;
  if (Status status = step("a copy from the device",
                           [&](std::uint64_t i) {
                             accelerator.copy_async(i, back[i].data(), on_device(second, i));
                           });
      !status.ok())
    return status;
  if (back != sources) return {StatusCode::internal, "what came back is not what went there"};
  if (Status status = step("a check of host memory",
                           [&](std::uint64_t i) { accelerator.checksum_async(i, back[i]); });
      !status.ok())
    return status;
  return step("a copy within host memory",
              [&](std::uint64_t i) { accelerator.copy_async(i, back[i].data(), sources[i]); });
}

}  // namespace terrace::storage
