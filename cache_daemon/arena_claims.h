// Which device arenas some process still maps, also those of daemons that are gone: their memory is
// in use for as long.
//
// A claim is a file beside the socket, "<socket>.arena-<boot id>", that says how large the arena
// is. The daemon locks it and hands the descriptor that holds the lock to each client together with
// the arena. The kernel lets go of a lock when the last process has closed it, however the
// processes end; so a claim that can be locked is nobody's any more. No process is asked, watched
// or named, and it works across containers that share nothing but the socket's folder.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"
#include "core/unique_fd.h"

namespace terrace::daemon {

class ArenaClaim {
 public:
  ArenaClaim() = default;
  // Lets go of it. The file goes, too, unless a client still holds it.
  ~ArenaClaim();
  ArenaClaim(ArenaClaim&&) noexcept = default;
  ArenaClaim& operator=(ArenaClaim&&) noexcept = default;

  // -1 if there is none.
  int fd() const { return fd_.get(); }

 private:
  friend class ArenaClaims;
  UniqueFd fd_;
  std::string path_;
};

// The claims beside one socket: a daemon on the same socket is the successor of those before it.
class ArenaClaims {
 public:
  explicit ArenaClaims(std::string socket_path) : socket_path_(std::move(socket_path)) {}

  // Claims an arena of `bytes` bytes.
  Result<ArenaClaim> claim(const std::string& boot_id, std::uint64_t bytes) const;

  // What arenas claimed by others, and not by nobody any more, take together. Removes the files of
  // those that are nobody's. A few system calls.
  std::uint64_t claimed_by_others(const std::string& own_boot_id) const;

 private:
  std::string prefix() const { return socket_path_ + ".arena-"; }

  std::string socket_path_;
};

}  // namespace terrace::daemon
