// A session: what one client process holds of the cache, from openSession until the process has
// ended or says that it touches nothing any more.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cache_daemon/staging_region.h"
#include "config/daemon_config.h"
#include "core/block_key.h"
#include "core/status.h"
#include "storage/tiered_cache.h"

namespace terrace::daemon {

// Passes calls on to the cache, with the limits of a session and the promise that the cache's
// acquire lacks: every acquire is answered, also if its lease is released meanwhile. Once the
// session has ended, every call says so. Deciding thread only.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // `tenant`: whose every space of it is, whatever it asks for; nothing: as it asks. The limits
  // outlive it.
  Session(storage::TieredCache& cache, std::string client_name, std::optional<std::string> tenant,
          const config::DaemonLimits& limits);

  storage::SessionId id() const { return id_; }
  const std::string& client_name() const { return client_name_; }
  const std::optional<std::string>& tenant() const { return tenant_; }
  bool ended() const { return ended_; }
  // Whether there is anything that its process could still touch.
  bool holds_anything() const { return !leases_.empty(); }
  std::size_t leases() const { return leases_.size(); }
  // That its leases asked for.
  std::size_t blocks() const;

  // What an acquire gives: at once where all is there, so that its answer takes no turn of the
  // loop.
  struct Acquired {
    std::optional<std::vector<storage::AcquiredBlock>> at_once;
    kj::Promise<std::vector<storage::AcquiredBlock>> later;  // else
  };
  // Each throws a kj::Exception for a session that has ended or a limit that was reached.
  Acquired acquire(storage::LeaseId lease, storage::SpaceId space, std::span<const BlockKey> keys,
                   const storage::AcquireOptions& options);
  std::vector<storage::SlotOffset> reserve(storage::LeaseId lease, storage::SpaceId space,
                                           std::span<const BlockKey> keys, std::size_t unnamed);
  std::optional<std::vector<storage::SlotOffset>> claim(storage::LeaseId lease,
                                                        storage::SpaceId space,
                                                        std::span<const BlockKey> keys,
                                                        std::size_t unnamed);
  std::vector<storage::SealOutcome> seal(storage::LeaseId lease,
                                         std::span<const storage::SealRequest> blocks);
  void release(storage::LeaseId lease);

  // Makes the session's staging region of at most `bytes`. Throws where it has one already, where
  // `limit_bytes` is 0, and where there is no memory.
  std::shared_ptr<StagingRegion> open_staging(std::uint64_t bytes, std::uint64_t limit_bytes);
  // Throws if there is none.
  const std::shared_ptr<StagingRegion>& staging() const;
  // Each is answered when its copies are done. A get whose promise is dropped is cancelled.
  kj::Promise<std::vector<PutOutcome>> put(storage::PutRequest request);
  kj::Promise<std::vector<storage::GotBlock>> get(storage::GetRequest request,
                                                  const storage::AcquireOptions& options);

  // Before this session opens the space of this digest.
  void admit_space(const BlockKey& digest);

  // The connection is gone: what was asked for is not wanted any more, but the leases stay.
  void abandon();
  // Every lease ends.
  void end();

 private:
  struct PendingAcquire {
    storage::LeaseId lease;
    std::optional<std::vector<storage::AcquiredBlock>> at_once;  // answered within the call
    kj::Own<kj::PromiseFulfiller<std::vector<storage::AcquiredBlock>>> fulfiller;  // else
  };

  void require_alive() const;
  void admit_transfer();
  void admit(storage::LeaseId lease, std::size_t blocks);

  storage::TieredCache& cache_;
  storage::SessionId id_;
  std::string client_name_;
  std::optional<std::string> tenant_;
  const config::DaemonLimits& limits_;
  bool ended_ = false;
  std::unordered_map<storage::LeaseId, std::size_t> leases_;  // and the blocks each asked for
  std::unordered_set<BlockKey> spaces_;
  std::uint64_t next_ticket_ = 0;
  std::map<std::uint64_t, PendingAcquire> pending_;
  std::shared_ptr<StagingRegion> staging_;
  std::size_t transfers_ = 0;  // under way
};

}  // namespace terrace::daemon
