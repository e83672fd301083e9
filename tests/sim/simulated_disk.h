// A disk under the hands of a simulation: what it was asked for happens when the simulation says,
// in an order that it draws, and goes wrong as it draws. What is durable outlives the cache.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/clock.h"
#include "storage/disk/disk_tier.h"
#include "tests/sim/random.h"

namespace terrace::sim {

// How likely what goes wrong is, for one step.
struct DiskTrouble {
  double fails = 0;  // with an I/O error
  double full = 0;   // a write, with no_space
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
  // A random record changes where it lies; its key if it is known for certain that it is broken.
  virtual std::optional<BlockKey> rot(Random& random) = 0;
  // The life is about to end: in order, or where it stands. Then it has ended.
  virtual void ending(bool crash, Random& random) = 0;
  virtual void ended(bool crash, Random& random) = 0;
};

// Over the fake disk: whole requests complete or fail. Fast. Recency and erases become durable
// within the second.
std::unique_ptr<SimulatedDisk> make_fake_simulated_disk(std::uint64_t capacity_bytes,
                                                        const Clock& clock);

}  // namespace terrace::sim
