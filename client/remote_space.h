// A space at the daemon's end of the connection. Lives on the connection's thread; what it is given
// to answer, other threads wait for.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "client/ledger.h"
#include "client/link.h"

namespace terrace::client {

// A lease as the daemon knows it. Each acquire and reserve has one of its own, so that one which
// was given up can be released without letting go of what the caller's lease held before.
using WireLease = std::uint64_t;

class RemoteSpace : public std::enable_shared_from_this<RemoteSpace> {
 public:
  RemoteSpace(SpaceDescriptor descriptor, Ledger& ledger)
      : descriptor_(std::move(descriptor)), ledger_(ledger) {}

  // A link came, which stays valid until disconnect(); or it went, and with it every lease.
  void connect(Link& link);
  void disconnect();

  // `deadline`: until when the answer is waited for.
  void match(std::span<const BlockKey> keys, std::span<const Token> tokens, Deadline deadline,
             Answer<Match> answer);
  void acquire(LeaseId lease, WireLease wire, std::span<const BlockKey> keys,
               const AcquireOptions& options, Deadline deadline,
               Answer<std::vector<AcquiredBlock>> answer);
  // Answers with no slots at all only if `unless_taken`, and then maybe.
  void reserve(LeaseId lease, WireLease wire, std::span<const BlockKey> keys, std::size_t unnamed,
               bool unless_taken, Answer<std::optional<std::vector<Slot>>> answer);
  // Nobody waits any more for the acquire or reserve of this number.
  void give_up(LeaseId lease, WireLease wire);

  void seal(LeaseId lease, std::vector<SealBlock> blocks);
  void release(LeaseId lease);
  // Releases every lease; seals that are on their way still go out.
  void close();
  bool idle() const { return outgoing_.empty() && unanswered_seals_ == 0; }

 private:
  struct HeldLease {
    std::vector<WireLease> wires;
    std::unordered_map<std::uint64_t, WireLease> reserved;  // by offset
  };
  // Blocks to seal, or leases to release; both in the order in which they were asked for.
  struct Outgoing {
    std::uint64_t entry = 0;  // of the ledger
    WireLease lease = 0;
    std::vector<SealBlock> blocks;
    std::vector<std::uint64_t> checksums;  // as far as they are computed
    std::vector<WireLease> releases;
  };

  void queue_seal(WireLease wire, std::vector<SealBlock> blocks);
  void queue_release(std::vector<WireLease> wires);
  void pump();
  void send_seal(const Outgoing& outgoing);
  void send_release(std::uint64_t entry, const std::vector<WireLease>& wires);

  const SpaceDescriptor descriptor_;
  Ledger& ledger_;
  Link* link_ = nullptr;
  protocol::Space::Client remote_ = nullptr;
  std::unordered_map<LeaseId, HeldLease> leases_;
  std::deque<Outgoing> outgoing_;
  std::size_t queued_blocks_ = 0;
  std::size_t unanswered_seals_ = 0;
  bool pump_scheduled_ = false;
};

}  // namespace terrace::client
