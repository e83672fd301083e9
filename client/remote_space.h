// A space at the daemon's end of the connection. Lives on the connection's thread; what it is given
// to answer, other threads wait for.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "client/ledger.h"
#include "client/link.h"
#include "client/staging_area.h"

namespace terrace::client {

// A lease as the daemon knows it. Each acquire and reserve has one of its own, so that one which
// was given up can be released without letting go of what the caller's lease held before.
using WireLease = std::uint64_t;

// Blocks of a put, staged: in the region, or still to be written to it by messages.
struct PutPiece {
  BlockKey parent;
  std::span<const Token> tokens;
  std::span<const std::byte* const> blocks;
  std::vector<std::uint64_t> checksums;
  std::shared_ptr<StagedBlocks> staged;
};

// Blocks of a get, and where they go in the region, and from there where there is no memory shared.
struct GetPiece {
  std::span<const BlockKey> keys;
  std::span<std::byte* const> destinations;
  GetOptions options;
  Deadline deadline;
  std::shared_ptr<StagedBlocks> staged;
};

struct GotBlock {
  Tier from = Tier::device;
  std::uint64_t checksum = 0;
};

// What is left until then, at least one.
std::uint32_t ms_until(Deadline deadline);

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

  // What a piece says of its caller's memory is looked at only while the caller waits.
  void put(const PutPiece& piece, Answer<std::vector<PutOutcome>> answer);
  void get(const GetPiece& piece, Answer<std::vector<GotBlock>> answer);

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

  // Whether the region is that of the link that stands, and a caller waits.
  bool is_current(const StagedBlocks& staged) const;
  void send_put(const PutPiece& piece, const Answer<std::vector<PutOutcome>>& answer);
  void stream_next_put();
  kj::Promise<void> read_payload(const GetPiece& piece, std::vector<GotBlock> got,
                                 const Answer<std::vector<GotBlock>>& answer);

  void queue_seal(WireLease wire, std::vector<SealBlock> blocks);
  void queue_release(std::vector<WireLease> wires);
  // Of a block in a slot of the session's arena.
  Result<std::uint64_t> checksum_of(const Slot& slot) const;
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
  std::deque<std::pair<PutPiece, Answer<std::vector<PutOutcome>>>> streamed_puts_;
  bool streaming_put_ = false;
  bool pump_scheduled_ = false;
};

}  // namespace terrace::client
