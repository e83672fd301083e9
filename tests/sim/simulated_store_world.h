// What a DiskStore has below it in a simulation: files and ring of one directory, and its workers,
// who do something only when they are told to.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/clock.h"
#include "storage/disk/disk_options.h"
#include "tests/sim/simulated_disk.h"
#include "tests/sim/simulated_files.h"
#include "tests/sim/simulated_index_env.h"

namespace terrace::sim {

// One machine: what all directories share.
struct SimulatedMachine {
  SimulatedMachine(std::shared_ptr<const Clock> with_clock, std::uint64_t seed)
      : clock(std::move(with_clock)), random(seed) {
    index_env.use(files.get());
  }

  std::shared_ptr<const Clock> clock;
  Random random;
  std::unique_ptr<SimulatedFiles> files = std::make_unique<SimulatedFiles>();
  SimulatedIndexEnv index_env;
  std::unordered_map<int, SimulatedFiles::File> open_files;
  // What happens to the operations on files at the moment.
  DiskTrouble trouble;
  // The operation on files after so many more fails, once.
  std::optional<std::int64_t> file_fault_in;
};

class StoreWorld {
 public:
  explicit StoreWorld(SimulatedMachine& machine) : machine_(machine) {}

  // For one life of the store.
  storage::DiskWorld make();

  bool under_way() const { return woken_ns_ || !pending_.empty() || !tasks_.empty(); }
  // One of: a turn of the store's loop, an operation of its ring, a task.
  void step(const DiskTrouble& trouble);
  // Wakes the loop when it is time, and lets nothing wait for long that is not the device's.
  void time_passed();
  // What is under way happens in part, although nobody will know; a task may have begun.
  void cut_short();
  // A life has ended.
  void reset();

 private:
  class StoreRing;
  class StoreWorkers;

  struct Pending {
    storage::RingOperation operation;
    SimulatedFiles::File file;
    std::uint64_t last_write = 0;  // of its file, when it was asked for
  };
  struct Task {
    StoreWorkers* workers;
    storage::Workers::Task run;
    std::int64_t since_ns = 0;
    bool of_index = false;
  };

  void wake();
  void run_turn();
  void complete(std::size_t which, const DiskTrouble& trouble);
  std::int64_t carry_out(const Pending& one, const DiskTrouble& trouble);
  void run_task(std::size_t which, const DiskTrouble& trouble);
  void run_to_the_end();

  SimulatedMachine& machine_;
  std::vector<Pending> pending_;
  std::vector<storage::RingCompletion> arrived_;
  std::deque<Task> tasks_;
  std::function<bool()> turn_;
  std::optional<std::int64_t> woken_ns_, due_ns_;
};

}  // namespace terrace::sim
