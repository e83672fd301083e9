// Memory that processes share through a descriptor: the arenas of the daemon and their mappings in
// clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/status.h"
#include "core/unique_fd.h"

namespace terrace {

// A mapping of a descriptor; unmapped when destroyed. Excluded from core dumps. Movable, not
// copyable.
class SharedMapping {
 public:
  enum class Access { read_only, read_write };

  SharedMapping() = default;
  ~SharedMapping();
  SharedMapping(SharedMapping&& other) noexcept;
  SharedMapping& operator=(SharedMapping&& other) noexcept;

  // Maps `bytes` bytes of `fd` from its start. The descriptor may be closed afterwards. io_error if
  // the kernel refuses, invalid_argument if the file is shorter (touching the rest would be a
  // SIGBUS).
  static Result<SharedMapping> map(int fd, std::size_t bytes, Access access);

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

  // Touches [offset, offset + bytes) so that later accesses fault no more. Best effort; any thread.
  void populate(std::size_t offset, std::size_t bytes) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Access access_ = Access::read_only;
};

// Creates an anonymous memory file of `bytes` bytes. Its size is sealed at once: a client that
// could shrink it would make the daemon die of SIGBUS. `name` shows in /proc.
Result<UniqueFd> create_memory_file(const std::string& name, std::size_t bytes);

// Seals a memory file against new writable mappings and against further seals; existing mappings
// keep theirs.
Status seal_against_writing(int fd);

// Seals a memory file against further seals only: whoever has the descriptor could otherwise lock
// out those who map it later.
Status seal_against_sealing(int fd);

}  // namespace terrace
