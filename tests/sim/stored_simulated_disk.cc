#include <algorithm>

#include "core/record.h"
#include "storage/disk/disk_set.h"
#include "tests/sim/simulated_disk.h"
#include "tests/sim/simulated_store_world.h"

namespace terrace::sim {

namespace {

// Failed attempts to open before one without faults.
constexpr int most_failed_opens = 3;
constexpr std::size_t file_operations_of_an_open = 30;
// Of the crashes: only the process, so that what it wrote to files is there.
constexpr double only_the_process = 0.25;

class StoredSimulatedDisk final : public SimulatedDisk {
 public:
  StoredSimulatedDisk(const StoreSetup& setup, std::shared_ptr<const Clock> clock,
                      std::uint64_t seed, std::function<void(const std::string&)> complain)
      : setup_(setup), complain_(std::move(complain)), machine_(std::move(clock), seed) {
    for (std::size_t i = 0; i < setup.directories; ++i) {
      directories_.push_back("/disk" + std::to_string(i));
      worlds_.push_back(std::make_unique<StoreWorld>(machine_));
    }
  }

  std::unique_ptr<storage::DiskTier> open() override {
    for (int i = 0; fails_to_open_ && i < most_failed_opens; ++i) try_to_open_with_a_fault();
    auto opened = open_once();
    if (!opened) {
      complain_("the disk does not open: " + opened.error().to_string());
      return nullptr;
    }
    disk_ = opened->get();
    return std::move(*opened);
  }

  bool under_way() const override {
    return std::ranges::any_of(worlds_, [](const auto& world) { return world->under_way(); });
  }

  void step(Random& random, const DiskTrouble& trouble) override {
    fails_to_open_ = fails_to_open_ || trouble.fails > 0;
    std::vector<StoreWorld*> busy;
    for (const auto& world : worlds_)
      if (world->under_way()) busy.push_back(world.get());
    busy[random.pick(busy.size())]->step(trouble);
  }

  void time_passed() override {
    for (const auto& world : worlds_) world->time_passed();
  }

  std::vector<BlockKey> rot(Random& random) override {
    struct Record {
      SimulatedFiles::File file;
      std::uint64_t offset, bytes;
      BlockKey key;
    };
    std::vector<Record> records;
    for (const std::string& directory : directories_) {
      for (const std::string& name : machine_.files->list(directory)) {
        if (!name.starts_with("data-")) continue;
        const auto file = machine_.files->find(directory + "/" + name);
        for (std::uint64_t at = 0; at + unit_bytes <= file->size(); at += unit_bytes)
          if (const auto header = decode_record_header(file->bytes().subspan(at, unit_bytes)))
            records.push_back(
                {file, at, std::min(record_header_bytes + header->stored_bytes, file->size() - at),
                 header->key});
      }
    }
    if (records.empty()) return {};
    const Record& record = records[random.pick(records.size())];
    const std::uint64_t at = record.offset + random.pick(record.bytes);
    record.file->flip(at, static_cast<unsigned>(random.pick(8)));
    // What is left in free units may lie over what is in use.
    std::vector<BlockKey> broken;
    for (const Record& one : records)
      if (one.file == record.file && one.offset <= at && at < one.offset + one.bytes)
        broken.push_back(one.key);
    return broken;
  }

  void ending(bool crash, Random& random) override {
    if (!crash) return;
    for (const auto& world : worlds_) world->cut_short();
    // The store may end its work in order: on what will be thrown away.
    survivor_ = random.chance(only_the_process) ? machine_.files->copy()
                                                : machine_.files->after_crash(random);
  }

  void ended(bool crash, Random&) override {
    disk_ = nullptr;
    machine_.index_env.settle();
    for (const auto& world : worlds_) world->reset();
    machine_.open_files.clear();
    if (!crash) return;
    machine_.files = std::move(survivor_);
    machine_.index_env.use(machine_.files.get());
  }

  void lose_index() override {
    for (const std::string& directory : directories_) machine_.files->remove(directory + "/index");
  }

  std::uint64_t used_bytes() const override { return disk_->usage().used_bytes; }

  void check() override {
    for (const std::string& directory : directories_) {
      machine_.index_env.settle();
      const std::uint64_t bytes = machine_.files->allocated_bytes(directory);
      if (bytes > setup_.capacity_bytes / directories_.size())
        complain_("the disk takes " + std::to_string(bytes) + " bytes, more than its cap");
    }
  }

 private:
  Result<std::unique_ptr<storage::DiskSet>> open_once() {
    storage::DiskOptions options;
    options.capacity_bytes = setup_.capacity_bytes;
    options.file_bytes = setup_.file_bytes;
    options.codec = setup_.codec;
    return storage::DiskSet::open(
        options, directories_, machine_.clock, [this](const std::string& directory) {
          const auto at = std::ranges::find(directories_, directory);
          return worlds_[static_cast<std::size_t>(at - directories_.begin())]->make();
        });
  }

  void try_to_open_with_a_fault() {
    if (!machine_.random.chance(0.3)) return;
    machine_.file_fault_in =
        static_cast<std::int64_t>(machine_.random.pick(file_operations_of_an_open));
    {
      const auto opened = open_once();
      if (!opened && opened.error().code() != StatusCode::io_error)
        complain_("an error of a file is told as another: " + opened.error().to_string());
      machine_.file_fault_in.reset();
    }
    machine_.index_env.settle();
    for (const auto& world : worlds_) world->reset();
    machine_.open_files.clear();
  }

  const StoreSetup setup_;
  const std::function<void(const std::string&)> complain_;
  std::vector<std::string> directories_;
  SimulatedMachine machine_;
  std::vector<std::unique_ptr<StoreWorld>> worlds_;
  storage::DiskTier* disk_ = nullptr;
  std::unique_ptr<SimulatedFiles> survivor_;
  bool fails_to_open_ = false;
};

}  // namespace

std::unique_ptr<SimulatedDisk> make_stored_simulated_disk(
    const StoreSetup& setup, std::shared_ptr<const Clock> clock, std::uint64_t seed,
    std::function<void(const std::string&)> complain) {
  return std::make_unique<StoredSimulatedDisk>(setup, std::move(clock), seed, std::move(complain));
}

}  // namespace terrace::sim
