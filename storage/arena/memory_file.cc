#include "storage/arena/memory_file.h"

#include <utility>

namespace terrace::storage {
namespace {

constexpr std::size_t populated_head_bytes = std::size_t{256} << 20;

}  // namespace

Result<std::unique_ptr<MemoryFile>> MemoryFile::create(const std::string& name, std::size_t bytes,
                                                       Clients clients) {
  auto fd = create_memory_file(name, bytes);
  if (!fd) return error(fd.error());
  auto mapping = SharedMapping::map(fd->get(), bytes, SharedMapping::Access::read_write);
  if (!mapping) return error(mapping.error());
  // Not when the first client attaches: the kernel zeroes memory more slowly than a client waits.
  // The head, where the first blocks go, now; a daemon must not be away for as long as all of it
  // takes.
  mapping->populate(0, populated_head_bytes);
  // After the mapping: the seal against writing lets only those write who could before.
  Status sealed = clients == Clients::read_only ? seal_against_writing(fd->get())
                                                : seal_against_sealing(fd->get());
  if (!sealed.ok()) return error(std::move(sealed));
  return std::unique_ptr<MemoryFile>(new MemoryFile(std::move(*fd), std::move(*mapping)));
}

MemoryFile::MemoryFile(UniqueFd fd, SharedMapping mapping)
    : fd_(std::move(fd)),
      mapping_(std::move(mapping)),
      population_(mapping_, populated_head_bytes, mapping_.size()) {}

}  // namespace terrace::storage
