#include "tests/sim/simulated_disk.h"
#include "tests/storage/support/fake_disk.h"

namespace terrace::sim {

namespace {

using storage::FakeDisk;

// When recency and erases are made durable, as the real disk does it.
constexpr std::int64_t commit_after_ns = 500'000'000;

class FakeSimulatedDisk final : public SimulatedDisk {
 public:
  FakeSimulatedDisk(std::uint64_t capacity_bytes, const Clock& clock) : clock_(clock) {
    contents_.capacity_bytes = capacity_bytes;
  }

  std::unique_ptr<storage::DiskTier> open() override {
    auto disk = std::make_unique<FakeDisk>(contents_);
    disk_ = disk.get();
    committed_ns_ = clock_.monotonic_ns();
    return disk;
  }

  bool under_way() const override { return !disk_->under_way().empty(); }

  void step(Random& random, const DiskTrouble& trouble) override {
    std::size_t which = random.pick(disk_->under_way().size());
    while (!disk_->may_complete(which)) which = random.pick(which);
    const bool write = disk_->under_way()[which].kind == FakeDisk::Kind::write;
    Status failure;
    if (random.chance(trouble.fails)) {
      failure = Status(StatusCode::io_error, "told to");
    } else if (write && random.chance(trouble.full)) {
      failure = Status(StatusCode::no_space, "told to");
    }
    disk_->complete(which, failure);
  }

  void time_passed() override {
    if (clock_.monotonic_ns() - committed_ns_ < commit_after_ns) return;
    contents_.commit();
    committed_ns_ = clock_.monotonic_ns();
  }

  std::vector<BlockKey> rot(Random& random) override {
    if (contents_.records.empty()) return {};
    auto at = contents_.records.begin();
    std::advance(at, random.pick(contents_.records.size()));
    storage::FakeRecord& record = at->second;
    switch (random.pick(8)) {
      case 0:
        record.tokens[random.pick(record.tokens.size())] ^= 1;
        break;
      case 1:
        record.parent.bytes[random.pick(32)] ^= 4;
        break;
      default:
        record.payload[random.pick(record.payload.size())] ^= std::byte{0x20};
    }
    return {at->first};
  }

  void ending(bool crash, Random& random) override {
    // Writes may have reached the disk although nobody was told.
    if (!crash) return;
    for (std::size_t i = 0; i < disk_->under_way().size();) {
      const bool write = disk_->under_way()[i].kind == FakeDisk::Kind::write;
      if (write && disk_->may_complete(i) && random.chance(0.5)) {
        disk_->complete(i);
      } else {
        ++i;
      }
    }
  }

  void ended(bool crash, Random& random) override {
    disk_ = nullptr;
    if (crash) {
      contents_.crash([&] { return random.chance(0.5); });
    } else {
      contents_.commit();
    }
  }

  std::uint64_t used_bytes() const override { return contents_.used_bytes(); }

 private:
  const Clock& clock_;
  storage::FakeDiskContents contents_;
  FakeDisk* disk_ = nullptr;
  std::int64_t committed_ns_ = 0;
};

}  // namespace

std::unique_ptr<SimulatedDisk> make_fake_simulated_disk(std::uint64_t capacity_bytes,
                                                        const Clock& clock) {
  return std::make_unique<FakeSimulatedDisk>(capacity_bytes, clock);
}

}  // namespace terrace::sim
