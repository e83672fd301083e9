#include "storage/arena/memory_file.h"

namespace terrace::storage {

Result<std::unique_ptr<MemoryFile>> MemoryFile::create(const std::string& name, std::size_t bytes,
                                                       Clients clients) {
  auto fd = create_memory_file(name, bytes);
  if (!fd) return error(fd.error());
  auto mapping = SharedMapping::map(fd->get(), bytes, SharedMapping::Access::read_write);
  if (!mapping) return error(mapping.error());
  // Now and not when the first client attaches: the kernel zeroes a GiB more slowly than a client
  // waits for its connection.
  mapping->populate(0, bytes);
  // After the mapping: the seal against writing lets only those write who could before.
  Status sealed = clients == Clients::read_only ? seal_against_writing(fd->get())
                                                : seal_against_sealing(fd->get());
  if (!sealed.ok()) return error(std::move(sealed));
  return std::unique_ptr<MemoryFile>(new MemoryFile(std::move(*fd), std::move(*mapping)));
}

}  // namespace terrace::storage
