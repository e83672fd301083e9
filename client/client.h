// libterrace: how a worker talks to terraced. Everything here fails open: no call takes longer than
// its deadline, none throws, and without a daemon each answers "unavailable" at once. The
// connection lives on a thread of its own and comes back by itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/arena_memory.h"
#include "core/block_key.h"
#include "core/default_paths.h"
#include "core/put_outcome.h"
#include "core/space.h"
#include "core/status.h"
#include "core/tier.h"

namespace terrace::client {

using Deadline = std::chrono::steady_clock::time_point;

using terrace::default_socket_path;

// What a client shows of itself.
struct Identity {
  std::string token_file;  // whose first line is its token; empty: none
  // For TLS, files in PEM: whom to trust (empty: whom the system trusts), and a certificate of
  // one's own with its key (empty: none).
  std::string ca_file, certificate_file, key_file;
  // The name that the daemon's certificate must have; empty: the address' host, which must not be
  // in digits then.
  std::string server_name;
};

// How this process gets at the bytes of blocks.
enum class PayloadPath {
  arena,  // it computes in the daemon's memory: acquire, reserve and seal
  // Its engine has KV memory of its own: put and get, through memory shared with the daemon,
  staging,
  stream,  // or through messages, where no memory can be shared
};

constexpr std::uint64_t default_staging_bytes = std::uint64_t{64} << 20;

struct ClientOptions {
  // Of a Unix socket, or an address such as "tls://cache.example:9471" ("tcp://…" without TLS);
  // empty: default_socket_path(). Only a Unix socket brings memory: without, slots cannot be had.
  std::string socket_path;
  Identity identity;
  std::string client_name;  // shows in the daemon's log
  // Called on the connection's thread when the daemon comes (empty text) or goes, with the reason:
  // once when the first attempt fails, when a connection is lost, and when the daemon stops
  // answering. Must not call the client.
  std::function<void(bool connected, const std::string& why)> on_change;
  PayloadPath payload = PayloadPath::arena;
  // Set by a program that computes in the memory of a GPU: then only an arena there is of use, and
  // slots have the device's addresses. Null: only one in the machine's memory.
  std::shared_ptr<ArenaImporter> arena_importer;
  // With put and get: how much of them may be on its way between this process and the daemon, which
  // has a limit of its own. A block must fit in.
  std::uint64_t staging_bytes = default_staging_bytes;
};

// A piece of an arena that this process maps. The memory stays mapped as long as any copy of the
// slot lives, also after the daemon that made it has gone.
struct Slot {
  std::byte* address = nullptr;
  std::uint64_t offset = 0;
  std::shared_ptr<const void> arena;  // keeps the mapping

  explicit operator bool() const { return address != nullptr; }
};

struct Match {
  std::vector<BlockState> blocks;
  std::uint32_t matched_blocks = 0;
  // Leading tokens of the first missing block that some sealed block shares (fewer than a block's),
  // and that block: to be acquired behind the matched run.
  std::uint32_t partial_tokens = 0;
  BlockKey partial_key;
  Tier partial_tier = Tier::device;  // the highest that has it
  std::chrono::nanoseconds load_time{0};
};

struct AcquireOptions {
  // How fast the caller computes a prompt; 0 if unknown. What loads slower is left out.
  double prefill_tokens_per_second = 0;
  // If not 0, the last key is a match's partial_key, wanted for so many tokens.
  std::uint32_t partial_tokens = 0;
  // How long to wait for keys behind the present run that other sessions are computing. The answer
  // comes early when all are there, or nobody else computes the next one any more. The deadline of
  // the call should lie past it.
  std::chrono::milliseconds wait{0};
};

struct GetOptions {
  // As with AcquireOptions.
  double prefill_tokens_per_second = 0;
  std::chrono::milliseconds wait{0};
};

struct AcquiredBlock {
  Slot slot;
  Tier from;  // the tier where match found it
};

struct SealBlock {
  Slot slot;
  BlockKey parent;
  std::vector<Token> tokens;
};

// A lease number of this process, never used twice.
using LeaseId = std::uint64_t;

// The blocks of one space. Methods may be called from any thread. It survives the daemon: after a
// restart it is opened again on the new connection; leases of the old one are simply gone, and what
// still names them does nothing.
class Space {
 public:
  virtual ~Space() = default;

  virtual const SpaceDescriptor& descriptor() const = 0;
  // The root of the space's keys: of the descriptor with the tenant that this client's login has,
  // as soon as the daemon has said so. It stays the same for as long as the daemon's rules do; keys
  // of another digest match nothing.
  virtual BlockKey digest() const = 0;

  virtual LeaseId new_lease() = 0;

  // What of a prompt is cached. Metadata only; one round trip.
  virtual Result<Match> match(std::span<const BlockKey> keys, std::span<const Token> tokens,
                              Deadline deadline) = 0;

  // Holds the leading run of `keys` in the device tier, loading what is lower. After an error this
  // call holds nothing, also if the daemon's answer comes later; what the lease held before, it
  // still holds.
  virtual Result<std::vector<AcquiredBlock>> acquire(LeaseId lease, std::span<const BlockKey> keys,
                                                     const AcquireOptions& options,
                                                     Deadline deadline) = 0;

  // Slots to write to, with whatever they held before: one a key and `unnamed` more, or fewer if
  // the arena is full. Errors as with acquire.
  virtual Result<std::vector<Slot>> reserve(LeaseId lease, std::span<const BlockKey> keys,
                                            std::size_t unnamed, Deadline deadline) = 0;

  // The same, but no slots at all if the first key has been sealed meanwhile or another session is
  // computing it: match again, and wait for it.
  virtual Result<std::optional<std::vector<Slot>>> claim(LeaseId lease,
                                                         std::span<const BlockKey> keys,
                                                         std::size_t unnamed,
                                                         Deadline deadline) = 0;

  // Checksums the slots and makes them matchable, without waiting. The slots, which this lease must
  // have reserved, must not change any more. Dropped without a word if their session is gone or the
  // daemon takes in seals slower than they come: then they are only not cached.
  virtual void seal(LeaseId lease, std::vector<SealBlock> blocks) = 0;

  // Ends a lease, without waiting: this process no longer touches its slots.
  virtual void release(LeaseId lease) = 0;

  // For clients with PayloadPath::staging or stream; failed_precondition for others, as acquire and
  // reserve are for these. Nothing is held in the daemon once they return, and the caller's memory
  // is not touched any more. The calling thread copies; several may at the same time.

  // Copies consecutive full blocks of one prefix into the cache: one address a block, of
  // descriptor().block_bytes bytes each, with the tokens of all of them. `parent` is the key of the
  // block before the first, or digest(). One outcome a block. After an error, some may be stored.
  // invalid_argument for a block larger than the staging region.
  virtual Result<std::vector<PutOutcome>> put(const BlockKey& parent, std::span<const Token> tokens,
                                              std::span<const std::byte* const> blocks,
                                              Deadline deadline) = 0;

  // Copies the leading run of `keys` out of the cache, each to its address, verified, and returns
  // where each was. What lies behind the run is undefined. At the deadline, and when the connection
  // is lost, the run is what had come; an error only if nothing had.
  virtual Result<std::vector<Tier>> get(std::span<const BlockKey> keys,
                                        std::span<std::byte* const> destinations,
                                        const GetOptions& options, Deadline deadline) = 0;

  // Waits until the daemon has answered every seal and release so far, or the deadline.
  virtual Status flush(Deadline deadline) = 0;
};

class Client {
 public:
  // Starts the connection's thread and returns at once; connecting goes on in the background.
  static std::unique_ptr<Client> start(ClientOptions options);
  virtual ~Client() = default;

  virtual bool connected() const = 0;
  // Waits until connected (arenas mapped; populating them goes on). At the deadline: unavailable
  // with the reason why the last attempt failed, or deadline_exceeded if the first is still under
  // way.
  virtual Status wait_connected(Deadline deadline) = 0;

  // The same, but returns as soon as the first attempt has failed: for whoever does not need a
  // daemon.
  virtual Status wait_first_attempt(Deadline deadline) = 0;

  // Opens a space now and on every later connection. Never fails for want of a daemon.
  virtual std::shared_ptr<Space> open_space(const SpaceDescriptor& descriptor) = 0;

  // Round trip of a message of `request_bytes` answered by one of `reply_bytes`, at most as many,
  // for measurements.
  virtual Status ping(std::size_t request_bytes, std::size_t reply_bytes, Deadline deadline) = 0;

  // How much of one request the cache may use up in all, as the daemon's configuration says (200 ms
  // until known).
  virtual std::chrono::milliseconds request_budget() const = 0;
};

}  // namespace terrace::client
