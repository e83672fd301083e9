// A disk under the hands of a simulation: what it was asked for happens when the simulation says,
// in an order that it draws, and goes wrong as it draws. What is durable outlives the cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/record.h"
#include "storage/disk/disk_tier.h"
#include "tests/sim/random.h"

namespace terrace::sim {

// How likely what goes wrong is, for one step.
struct DiskTrouble {
  double fails = 0;  // with an I/O error
  double full = 0;   // a write, with no_space
  double index = 0;  // a commit of the index, in the middle of it
};

class SimulatedDisk {
 public:
  virtual ~SimulatedDisk() = default;

  // A new life over what is durable. The object is gone before the next one.
  virtual std::unique_ptr<storage::DiskTier> open() = 0;
  // Whether step() has something to do.
  virtual bool under_way() const = 0;
  // One thing happens: a request completes, or a part of it.
  virtual void step(Random& random, const DiskTrouble& trouble) = 0;
  // The clock has moved.
  virtual void time_passed() = 0;
  // A random record changes where it lies: the keys of all that may be broken now.
  virtual std::vector<BlockKey> rot(Random& random) = 0;
  // The life is about to end: in order, or where it stands. Then it has ended.
  virtual void ending(bool crash, Random& random) = 0;
  virtual void ended(bool crash, Random& random) = 0;
  // The index is lost between two lives: it is rebuilt from the records.
  virtual void lose_index() {}

  // What the disk itself believes to be in use; and what must hold at any time.
  virtual std::uint64_t used_bytes() const = 0;
  virtual void check() {}
};

// Over the fake disk: whole requests complete or fail. Fast. Recency and erases become durable
// within the second.
std::unique_ptr<SimulatedDisk> make_fake_simulated_disk(std::uint64_t capacity_bytes,
                                                        const Clock& clock);

// How the store of a simulation is set up.
struct StoreSetup {
  std::uint64_t capacity_bytes = 0;  // of all directories
  std::uint64_t file_bytes = 0;
  std::size_t directories = 1;
  Codec codec = Codec::raw;
};

// Over the real store: engine, index, recovery and all, over files that are simulated, in steps
// instead of threads. Everything that goes wrong does so below it: writes that are torn, short or
// not there after a crash, errors of files, ring and index. Slower. `complain` is told what must
// not be.
std::unique_ptr<SimulatedDisk> make_stored_simulated_disk(
    const StoreSetup& setup, std::shared_ptr<const Clock> clock, std::uint64_t seed,
    std::function<void(const std::string&)> complain);

}  // namespace terrace::sim
