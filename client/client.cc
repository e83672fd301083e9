#include "client/client.h"

#include <csignal>
#include <mutex>
#include <optional>
#include <thread>

#include "client/block_transfers.h"
#include "client/engine.h"
#include "client/limits.h"
#include "client/shared_connection.h"

namespace terrace::client {
namespace {

class SpaceHandle final : public Space {
 public:
  SpaceHandle(std::shared_ptr<SharedConnection> shared, const SpaceDescriptor& descriptor)
      : shared_(std::move(shared)), descriptor_(descriptor), number_(++shared_->last_space) {
    shared_->queue.post(
        [number = number_, descriptor](Engine& engine) { engine.open_space(number, descriptor); });
  }

  ~SpaceHandle() override {
    shared_->queue.post([number = number_](Engine& engine) { engine.close_space(number); });
  }

  const SpaceDescriptor& descriptor() const override { return descriptor_; }
  BlockKey digest() const override {
    const std::lock_guard lock(mutex_);
    if (const std::uint64_t tenancy = shared_->state.tenancy(); tenancy != digest_of_) {
      SpaceDescriptor named = descriptor_;
      named.tenant = shared_->state.space_tenant(named.tenant);
      digest_ = named.digest();
      digest_of_ = tenancy;
    }
    return digest_;
  }
  LeaseId new_lease() override { return ++shared_->last_lease; }

  Result<Match> match(std::span<const BlockKey> keys, std::span<const Token> tokens,
                      Deadline deadline) override {
    return ask<Match>(deadline, [=](RemoteSpace& space, const Answer<Match>& answer) {
      space.match(keys, tokens, deadline, answer);
    });
  }

  Result<std::vector<AcquiredBlock>> acquire(LeaseId lease, std::span<const BlockKey> keys,
                                             const AcquireOptions& options,
                                             Deadline deadline) override {
    using Blocks = std::vector<AcquiredBlock>;
    const WireLease wire = ++shared_->last_wire_lease;
    auto blocks = ask<Blocks>(deadline, [=](RemoteSpace& space, const Answer<Blocks>& answer) {
      space.acquire(lease, wire, keys, options, deadline, answer);
    });
    if (!blocks) give_up(lease, wire);
    return blocks;
  }

  Result<std::vector<Slot>> reserve(LeaseId lease, std::span<const BlockKey> keys,
                                    std::size_t unnamed, Deadline deadline) override {
    auto slots = ask_for_slots(lease, keys, unnamed, false, deadline);
    if (!slots) return error(slots.error());
    return std::move(*slots).value_or(std::vector<Slot>());
  }

  Result<std::optional<std::vector<Slot>>> claim(LeaseId lease, std::span<const BlockKey> keys,
                                                 std::size_t unnamed, Deadline deadline) override {
    return ask_for_slots(lease, keys, unnamed, true, deadline);
  }

  void seal(LeaseId lease, std::vector<SealBlock> blocks) override {
    if (blocks.empty()) return;
    // A task is copied on its way; the blocks need not be.
    auto shared_blocks = std::make_shared<std::vector<SealBlock>>(std::move(blocks));
    post([lease, shared_blocks](RemoteSpace& space) {
      space.seal(lease, std::move(*shared_blocks));
    });
  }

  void release(LeaseId lease) override {
    post([lease](RemoteSpace& space) { space.release(lease); });
  }

  Result<std::vector<PutOutcome>> put(const BlockKey& parent, std::span<const Token> tokens,
                                      std::span<const std::byte* const> blocks,
                                      Deadline deadline) override {
    return put_blocks(*shared_, {number_, descriptor_}, parent, tokens, blocks, deadline);
  }

  Result<std::vector<Tier>> get(std::span<const BlockKey> keys,
                                std::span<std::byte* const> destinations, const GetOptions& options,
                                Deadline deadline) override {
    return get_blocks(*shared_, {number_, descriptor_}, keys, destinations, options, deadline);
  }

  Status flush(Deadline deadline) override {
    const auto flushed = shared_->ask<std::monostate>(
        deadline,
        [](Engine& engine, const Answer<std::monostate>& answer) { engine.flush(answer); });
    return flushed ? Status() : flushed.error();
  }

 private:
  Result<std::optional<std::vector<Slot>>> ask_for_slots(LeaseId lease,
                                                         std::span<const BlockKey> keys,
                                                         std::size_t unnamed, bool unless_taken,
                                                         Deadline deadline) {
    using Slots = std::optional<std::vector<Slot>>;
    const WireLease wire = ++shared_->last_wire_lease;
    auto slots = ask<Slots>(deadline, [=](RemoteSpace& space, const Answer<Slots>& answer) {
      space.reserve(lease, wire, keys, unnamed, unless_taken, answer);
    });
    if (!slots) give_up(lease, wire);
    return slots;
  }

  template <typename T, typename Start>
  Result<T> ask(Deadline deadline, Start start) {
    return shared_->ask<T>(deadline,
                           [start, number = number_](Engine& engine, const Answer<T>& answer) {
                             if (RemoteSpace* space = engine.space(number)) start(*space, answer);
                           });
  }

  template <typename Start>
  void post(Start start) {
    shared_->queue.post([start, number = number_](Engine& engine) {
      if (RemoteSpace* space = engine.space(number)) start(*space);
    });
  }

  void give_up(LeaseId lease, WireLease wire) {
    post([lease, wire](RemoteSpace& space) { space.give_up(lease, wire); });
  }

  std::shared_ptr<SharedConnection> shared_;
  const SpaceDescriptor descriptor_;
  mutable std::mutex mutex_;
  // What digest_ was computed for. The first one, of no daemon's names yet, is computed as well.
  mutable std::optional<std::uint64_t> digest_of_;
  mutable BlockKey digest_;
  const SpaceNumber number_;
};

class ThreadedClient final : public Client {
 public:
  explicit ThreadedClient(ClientOptions options)
      : shared_(std::make_shared<SharedConnection>(options.payload)),
        thread_([shared = shared_, options = std::move(options)] { run(*shared, options); }) {}

  ~ThreadedClient() override {
    // What was sealed last deserves a moment; nobody waits for a daemon that does not answer.
    const auto deadline = Deadline::clock::now() + closing_limit;
    [[maybe_unused]] const auto flushed = shared_->ask<std::monostate>(
        deadline,
        [](Engine& engine, const Answer<std::monostate>& answer) { engine.flush(answer); });
    shared_->queue.post([](Engine& engine) { engine.stop(); });
    thread_.join();
  }

  bool connected() const override { return shared_->state.check().ok(); }
  Status wait_connected(Deadline deadline) override {
    return shared_->state.wait_connected(deadline);
  }
  Status wait_first_attempt(Deadline deadline) override {
    return shared_->state.wait_first_attempt(deadline);
  }
  std::shared_ptr<Space> open_space(const SpaceDescriptor& descriptor) override {
    return std::make_shared<SpaceHandle>(shared_, descriptor);
  }
  Status ping(std::size_t request_bytes, std::size_t reply_bytes, Deadline deadline) override {
    const auto answered = shared_->ask<std::monostate>(
        deadline, [=](Engine& engine, const Answer<std::monostate>& answer) {
          engine.ping(request_bytes, reply_bytes, answer);
        });
    return answered ? Status() : answered.error();
  }
  std::chrono::milliseconds request_budget() const override {
    return shared_->state.request_budget();
  }

 private:
  static void run(SharedConnection& shared, const ClientOptions& options) {
    // Signals are for the program's own threads.
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    try {
      auto io = kj::setupAsyncIo();
      Engine(io, options, shared.queue, shared.state).run();
      shared.state.set_disconnected("the client has been closed");
    } catch (const kj::Exception& exception) {
      shared.state.set_disconnected(exception.getDescription().cStr());
    } catch (const std::exception& exception) {
      shared.state.set_disconnected(exception.what());
    }
    shared.queue.close();
  }

  std::shared_ptr<SharedConnection> shared_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Client> Client::start(ClientOptions options) {
  return std::make_unique<ThreadedClient>(std::move(options));
}

}  // namespace terrace::client
