#include "tests/sim/simulated_store_world.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace terrace::sim {

using storage::RingOperation;

namespace {

// The longest that a task or a timer waits for its turn.
constexpr std::int64_t longest_wait_ns = 20'000'000;
// A store that has not ended after so many turns never will.
constexpr int most_turns_to_end = 100'000;
// Operations on the log of the index in one commit, about.
constexpr std::size_t log_operations = 6;

class StoreFiles final : public storage::Files {
 public:
  explicit StoreFiles(SimulatedMachine& machine) : machine_(machine) {}

  Status create_directories(const std::string& path) override {
    if (Status failed = fault(); !failed.ok()) return failed;
    files().create_directories(path);
    return {};
  }
  Status sync_directory(const std::string& path) override {
    if (Status failed = fault(); !failed.ok()) return failed;
    files().sync_directory(path);
    return {};
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    if (Status failed = fault(); !failed.ok()) return error(failed);
    return files().list(path);
  }
  Status remove(const std::string& path) override {
    if (Status failed = fault(); !failed.ok()) return failed;
    files().remove(path);
    return {};
  }
  std::uint64_t allocated_bytes(const std::string& path) override {
    machine_.index_env.settle();
    return files().allocated_bytes(path);
  }
  rocksdb::Env* index_environment() override { return &machine_.index_env; }

  Result<std::string> read_file(const std::string& path) override {
    if (Status failed = fault(); !failed.ok()) return error(failed);
    const auto file = files().find(path);
    if (!file) return error(StatusCode::not_found, path + " does not exist");
    const auto bytes = file->bytes();
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  Status write_file(const std::string& path, std::span<const std::byte> contents) override {
    const std::string next = path + ".new";
    if (Status failed = fault(); !failed.ok()) return failed;
    const auto file = files().create(next);
    if (Status failed = fault(); !failed.ok()) {
      file->write(0, contents.first(contents.size() / 2));
      return failed;
    }
    file->write(0, contents);
    if (Status failed = fault(); !failed.ok()) {
      file->sync_failed(file->last_write());
      return failed;
    }
    file->sync(file->last_write());
    if (Status failed = fault(); !failed.ok()) return failed;
    files().rename(next, path);
    return sync_directory(path.substr(0, path.rfind('/')));
  }
  Result<UniqueFd> lock_file(const std::string& path, const std::string&) override {
    if (Status failed = fault(); !failed.ok()) return error(failed);
    return open(files().create(path));
  }
  Result<DataFile> open_data_file(const std::string& path, bool create) override {
    if (Status failed = fault(); !failed.ok()) return error(failed);
    auto file = files().find(path);
    if (create == static_cast<bool>(file))
      return error(errno_status(create ? EEXIST : ENOENT, path));
    if (create) file = files().create(path);
    return DataFile{open(std::move(file)), true};
  }
  Status preallocate(int fd, std::uint64_t bytes) override {
    if (machine_.random.chance(machine_.trouble.full)) return errno_status(ENOSPC, "told to");
    if (Status failed = fault(); !failed.ok()) {
      file_of(fd)->allocate(bytes / 2);
      return failed;
    }
    file_of(fd)->allocate(bytes);
    return {};
  }
  Result<std::uint64_t> size(int fd) override {
    if (Status failed = fault(); !failed.ok()) return error(failed);
    return file_of(fd)->size();
  }
  Status sync(int fd) override {
    if (Status failed = fault(); !failed.ok()) {
      file_of(fd)->sync_failed(file_of(fd)->last_write());
      return failed;
    }
    file_of(fd)->sync(file_of(fd)->last_write());
    return {};
  }
  Status punch_hole(int fd, std::uint64_t offset, std::uint64_t bytes) override {
    if (Status failed = fault(); !failed.ok()) return failed;
    file_of(fd)->punch_hole(offset, bytes);
    return {};
  }
  Result<std::optional<std::uint64_t>> next_data(int fd, std::uint64_t offset) override {
    if (Status failed = fault(); !failed.ok()) return error(failed);
    return file_of(fd)->next_data(offset);
  }
  Result<std::size_t> read(int fd, std::uint64_t offset, std::span<std::byte> into) override {
    const auto bytes = file_of(fd)->bytes();
    const std::size_t first = std::min<std::size_t>(offset, bytes.size());
    const auto from = bytes.subspan(first, std::min(into.size(), bytes.size() - first));
    std::ranges::copy(from, into.begin());
    return from.size();
  }

 private:
  SimulatedFiles& files() { return *machine_.files; }
  SimulatedFile* file_of(int fd) { return machine_.open_files.at(fd).get(); }

  // A descriptor of nothing, for its number and its end.
  UniqueFd open(SimulatedFiles::File file) {
    UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    machine_.open_files[fd.get()] = std::move(file);
    return fd;
  }

  Status fault() {
    bool fails = machine_.random.chance(machine_.trouble.fails);
    if (auto& left = machine_.file_fault_in; left && (*left)-- == 0) {
      left.reset();
      fails = true;
    }
    return fails ? errno_status(EIO, "told to") : Status();
  }

  SimulatedMachine& machine_;
};

}  // namespace

class StoreWorld::StoreRing final : public storage::Ring {
 public:
  explicit StoreRing(StoreWorld& world) : world_(world) {}
  std::string_view name() const override { return "simulated"; }
  void submit(const RingOperation& operation) override {
    const auto& file = world_.machine_.open_files.at(operation.fd);
    world_.pending_.push_back({operation, file, file->last_write()});
  }
  void wait(std::vector<storage::RingCompletion>& out,
            std::optional<std::int64_t> timeout_ns) override {
    if (!world_.arrived_.empty()) world_.wake();
    std::ranges::move(world_.arrived_, std::back_inserter(out));
    world_.arrived_.clear();
    world_.due_ns_.reset();
    if (timeout_ns) world_.due_ns_ = world_.machine_.clock->monotonic_ns() + *timeout_ns;
  }
  void wake() override { world_.wake(); }

 private:
  StoreWorld& world_;
};

class StoreWorld::StoreWorkers final : public storage::Workers {
 public:
  StoreWorkers(StoreWorld& world, unsigned count) : world_(world), count_(count) {}
  ~StoreWorkers() override {
    if (loops_) world_.run_to_the_end();
  }
  void post(Task task) override {
    // The index is the work of one alone; what waits for it by the thousand is not.
    world_.tasks_.push_back(
        {this, std::move(task), world_.machine_.clock->monotonic_ns(), count_ == 1});
  }
  void loop(std::function<bool()> turn) override {
    loops_ = true;
    world_.turn_ = std::move(turn);
    world_.wake();
  }

 private:
  StoreWorld& world_;
  const unsigned count_;
  bool loops_ = false;
};

storage::DiskWorld StoreWorld::make() {
  storage::DiskWorld world;
  world.files = std::make_unique<StoreFiles>(machine_);
  world.make_ring = [this](storage::RingKind, unsigned) -> Result<std::unique_ptr<storage::Ring>> {
    return std::make_unique<StoreRing>(*this);
  };
  world.clock = machine_.clock;
  world.make_workers = [this](unsigned count) {
    return std::make_unique<StoreWorkers>(*this, count);
  };
  return world;
}

void StoreWorld::step(const DiskTrouble& trouble) {
  machine_.trouble = trouble;
  // The first of the tasks: those of the index keep their order, the others are so few that it
  // makes no difference.
  const std::size_t choices = pending_.size() + (tasks_.empty() ? 0 : 1) + (woken_ns_ ? 1 : 0);
  const std::size_t choice = machine_.random.pick(choices);
  if (choice < pending_.size())
    complete(choice, trouble);
  else if (choice == pending_.size() && !tasks_.empty())
    run_task(0, trouble);
  else
    run_turn();
  machine_.trouble = {};
}

void StoreWorld::wake() {
  if (!woken_ns_) woken_ns_ = machine_.clock->monotonic_ns();
}

void StoreWorld::run_turn() {
  woken_ns_.reset();
  turn_();
}

void StoreWorld::time_passed() {
  const std::int64_t now_ns = machine_.clock->monotonic_ns();
  if (due_ns_ && *due_ns_ <= now_ns && !woken_ns_) woken_ns_ = due_ns_;
  while (woken_ns_ && *woken_ns_ + longest_wait_ns <= now_ns) run_turn();
  while (!tasks_.empty() && tasks_.front().since_ns + longest_wait_ns <= now_ns) {
    run_task(0, {});
    run_turn();
  }
}

void StoreWorld::complete(std::size_t which, const DiskTrouble& trouble) {
  const Pending one = std::move(pending_[which]);
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(which));
  arrived_.push_back({one.operation.tag, carry_out(one, trouble)});
  wake();
}

std::int64_t StoreWorld::carry_out(const Pending& one, const DiskTrouble& trouble) {
  Random& random = machine_.random;
  const RingOperation& operation = one.operation;
  SimulatedFile& file = *one.file;
  const bool fails = random.chance(trouble.fails);
  if (operation.kind == RingOperation::Kind::sync) {
    if (fails) file.sync_failed(one.last_write);
    if (!fails) file.sync(one.last_write);
    return fails ? -EIO : 0;
  }
  std::uint64_t bytes = 0;
  for (const iovec& part : operation.iovecs) bytes += part.iov_len;
  // A failure may come after a part was done, and then be an error or just less than was asked for.
  std::uint64_t left = bytes;
  std::int64_t problem = 0;
  if (fails) {
    left = random.pick(bytes / sector_bytes) * sector_bytes;
    problem = -EIO;
  } else if (operation.kind == RingOperation::Kind::write && random.chance(trouble.full)) {
    left = random.pick(bytes / sector_bytes) * sector_bytes;
    problem = -ENOSPC;
  }
  const bool says_so = problem == 0 || left == 0 || random.chance(0.5);
  const std::uint64_t wanted = left;
  std::uint64_t at = operation.offset;
  for (const iovec& part : operation.iovecs) {
    const std::uint64_t length = std::min<std::uint64_t>(left, part.iov_len);
    auto* const memory = static_cast<std::byte*>(part.iov_base);
    if (operation.kind == RingOperation::Kind::write) {
      file.write(at, {memory, length});
    } else {
      const auto from = file.bytes();
      const std::uint64_t there = at < from.size() ? std::min(length, from.size() - at) : 0;
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(there == 0 ? 0 : at), there, memory);
      if (there < length) return static_cast<std::int64_t>(at + there - operation.offset);
    }
    at += length;
    left -= length;
  }
  if (problem != 0 && says_so) return problem;
  return static_cast<std::int64_t>(wanted);
}

void StoreWorld::run_task(std::size_t which, const DiskTrouble& trouble) {
  Task task = std::move(tasks_[which]);
  tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(which));
  const bool fails = task.of_index && machine_.random.chance(trouble.index);
  if (fails)
    machine_.index_env.fail_log(static_cast<std::int64_t>(machine_.random.pick(log_operations)),
                                machine_.random.chance(0.5));
  task.run(0);
  machine_.index_env.settle();
  machine_.index_env.heal_log();
}

void StoreWorld::run_to_the_end() {
  machine_.trouble = {};
  for (int turns = 0; turn_() && turns < most_turns_to_end; ++turns) {
    while (!pending_.empty()) complete(machine_.random.pick(pending_.size()), {});
    while (!tasks_.empty()) run_task(0, {});
  }
  turn_ = nullptr;
}

void StoreWorld::cut_short() {
  Random& random = machine_.random;
  for (const Pending& one : pending_) {
    if (one.operation.kind != RingOperation::Kind::write || random.chance(0.3)) continue;
    DiskTrouble whole_or_in_part;
    whole_or_in_part.fails = 0.5;
    carry_out(one, whole_or_in_part);
  }
  if (!tasks_.empty() && random.chance(0.6)) {
    DiskTrouble in_the_middle;
    in_the_middle.index = 0.6;
    run_task(0, in_the_middle);
  }
}

void StoreWorld::reset() {
  pending_.clear();
  arrived_.clear();
  tasks_.clear();
  turn_ = nullptr;
  woken_ns_.reset();
  due_ns_.reset();
}

}  // namespace terrace::sim
