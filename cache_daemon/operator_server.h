// What operators ask: figures and listings.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache_daemon/context.h"

namespace terrace::daemon {

class OperatorServer final : public protocol::Operator::Server {
 public:
  explicit OperatorServer(Context& context) : context_(context) {}
  ~OperatorServer() noexcept(false);

  kj::Promise<void> stats(StatsContext call) override;
  kj::Promise<void> listBlocks(ListBlocksContext call) override;
  kj::Promise<void> listSpaces(ListSpacesContext call) override;
  kj::Promise<void> pin(PinContext call) override;
  kj::Promise<void> unpin(UnpinContext call) override;
  kj::Promise<void> listPins(ListPinsContext call) override;
  kj::Promise<void> dropSpace(DropSpaceContext call) override;
  kj::Promise<void> evict(EvictContext call) override;
  kj::Promise<void> inspect(InspectContext call) override;
  kj::Promise<void> explain(ExplainContext call) override;
  kj::Promise<void> warm(WarmContext call) override;
  kj::Promise<void> sessions(SessionsContext call) override;
  kj::Promise<void> kick(KickContext call) override;
  kj::Promise<void> readBlock(ReadBlockContext call) override;

 private:
  // What explain() or warm() was asked, and until when it waits for Redis.
  struct Question {
    storage::SpaceId space = 0;
    std::vector<Token> tokens;
    std::vector<BlockKey> keys;
    std::int64_t redis_deadline_ns = 0;
  };
  // Whether anybody was asked. `known_blocks`: that a match finds by now.
  kj::Promise<bool> ask_redis(std::shared_ptr<const Question> question, std::size_t known_blocks);
  nlohmann::ordered_json explanation(const Question& question, const storage::MatchResult& found,
                                     bool asked) const;
  kj::Promise<void> load_warm(WarmContext call, storage::SpaceId space,
                              std::span<const BlockKey> keys);

  Context& context_;
  // That warm() holds what it loads with, for as long as that takes.
  std::optional<storage::SessionId> warming_session_;
  storage::LeaseId next_lease_ = 1;
  std::size_t warms_ = 0;  // under way
  // Of which not all pieces have been asked for yet.
  std::optional<storage::BlockPayload> last_read_;
  std::size_t block_reads_ = 0;  // under way
};

// The answer to Operator.stats; docs/protocol.md lists the fields.
std::string stats_json(const Context& context);

}  // namespace terrace::daemon
