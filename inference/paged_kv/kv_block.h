// A block of KV memory as sequences of this process hold it: one that is complete may be read by
// several.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "client/client.h"

namespace terrace::inference {

// A lease that ends when the last block that came with it is let go of.
class SequenceLease {
 public:
  // `space` must outlive it.
  explicit SequenceLease(client::Space& space) : space_(space), id_(space.new_lease()) {}
  ~SequenceLease() {
    // Also after a failed call: its answer may still come, and with it slots that nobody else would
    // give back.
    if (known_) space_.release(id_);
  }
  SequenceLease(const SequenceLease&) = delete;
  SequenceLease& operator=(const SequenceLease&) = delete;

  // Its number, for a call that tells the daemon of it.
  client::LeaseId use() {
    known_ = true;
    return id_;
  }

 private:
  client::Space& space_;
  const client::LeaseId id_;
  bool known_ = false;  // the daemon may know of it
};

struct KvBlock {
  std::byte* address = nullptr;
  client::Slot slot;                    // in an arena; empty for private memory
  std::shared_ptr<const void> held_by;  // the lease, or the private memory itself
};

using KvBlockRef = std::shared_ptr<const KvBlock>;

}  // namespace terrace::inference
