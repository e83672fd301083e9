#include "storage/disk/disk_store.h"

#include <utility>

#include "core/space.h"
#include "storage/disk/disk_engine.h"
#include "storage/disk/recovery.h"

namespace terrace::storage {

Result<std::unique_ptr<DiskStore>> DiskStore::open(const DiskOptions& options, DiskWorld world) {
  if (options.directory.empty())
    return error(StatusCode::invalid_argument, "the disk tier needs a directory");
  if (options.codec_threads == 0)
    return error(StatusCode::invalid_argument, "the disk tier needs at least one codec thread");
  if (!world.files) world.files = make_system_files();
  if (!world.make_ring) world.make_ring = make_ring;
  if (!world.clock) world.clock = std::make_shared<SystemClock>();
  if (!world.make_workers)
    world.make_workers = [](unsigned count) { return std::make_unique<WorkerThreads>(count); };

  auto ring = world.make_ring(options.ring, ring_depth);
  if (!ring) return error(ring.error());
  auto opened = open_store(options, *world.files);
  if (!opened) return error(opened.error());
  auto blocks = std::move(opened->blocks);
  auto spaces = opened->spaces;
  auto notes = std::move(opened->notes);
  auto engine =
      std::make_unique<DiskEngine>(options, std::move(world), std::move(*ring), std::move(*opened));
  return std::unique_ptr<DiskStore>(
      new DiskStore(std::move(engine), std::move(blocks), std::move(spaces), std::move(notes)));
}

DiskStore::DiskStore(std::unique_ptr<DiskEngine> engine, std::vector<RecoveredBlock> blocks,
                     std::vector<SpaceDescriptor> spaces, std::vector<DiskNote> notes)
    : engine_(std::move(engine)),
      recovered_blocks_(std::move(blocks)),
      recovered_spaces_(std::move(spaces)),
      recovered_notes_(std::move(notes)) {}

DiskStore::~DiskStore() = default;

std::vector<RecoveredBlock> DiskStore::take_recovered_blocks() {
  return std::exchange(recovered_blocks_, {});
}
std::vector<SpaceDescriptor> DiskStore::take_recovered_spaces() {
  return std::exchange(recovered_spaces_, {});
}
std::vector<DiskNote> DiskStore::take_recovered_notes() {
  return std::exchange(recovered_notes_, {});
}
void DiskStore::add_space(const SpaceDescriptor& space) { engine_->submit(space); }
void DiskStore::write(DiskWrite request) { engine_->submit(std::move(request)); }
void DiskStore::read(DiskRead request) { engine_->submit(std::move(request)); }
void DiskStore::erase(const BlockKey& key) { engine_->submit(EraseRequest{key}); }
void DiskStore::touch(std::span<const BlockKey> keys, std::uint64_t recency) {
  engine_->submit(TouchRequest{{keys.begin(), keys.end()}, recency});
}
void DiskStore::set_note(DiskNote note) { engine_->submit(std::move(note)); }
void DiskStore::flush(Ticket ticket) { engine_->submit(FlushRequest{ticket}); }
void DiskStore::take_completions(std::vector<DiskCompletion>& out) {
  engine_->take_completions(out);
}
void DiskStore::set_notify(std::function<void()> notify) { engine_->set_notify(std::move(notify)); }
DiskUsage DiskStore::usage() const { return engine_->usage(); }
std::string_view DiskStore::ring_name() const { return engine_->ring_name(); }
bool DiskStore::direct() const { return engine_->direct(); }

}  // namespace terrace::storage
