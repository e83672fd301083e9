// `terrace import`: an archive into a running daemon.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>

#include "client/operator.h"
#include "core/import_outcome.h"
#include "core/status.h"

namespace terrace::cli {

struct ImportReport {
  std::uint64_t spaces = 0;
  std::uint64_t blocks = 0;  // records that verify
  std::uint64_t bytes = 0;   // of their payloads
  std::uint64_t imported = 0;
  std::uint64_t there = 0;  // before
  std::uint64_t no_room = 0, refused = 0;
  std::uint64_t damages = 0;  // places in the archive that do not verify
  bool complete = false;      // the archive is whole
  std::string refusal;        // why the daemon did not take the first that it did not

  // Everything in the archive is in the daemon now, and that is all that ever was in it.
  bool whole() const { return complete && damages == 0 && no_room == 0 && refused == 0; }
};

// Reads the archive from its beginning and gives the daemon what it does not have. Without `daemon`
// the archive is only read and verified. Fails if the file cannot be read or is no archive, or if
// the daemon is gone.
Result<ImportReport> import_archive(client::OperatorClient* daemon, const std::string& path,
                                    std::ostream* progress);

}  // namespace terrace::cli
