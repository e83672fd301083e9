// What operators ask: figures and listings.
#pragma once

#include <string>

#include "cache_daemon/context.h"

namespace terrace::daemon {

class OperatorServer final : public protocol::Operator::Server {
 public:
  explicit OperatorServer(Context& context) : context_(context) {}

  kj::Promise<void> stats(StatsContext call) override;
  kj::Promise<void> listBlocks(ListBlocksContext call) override;
  kj::Promise<void> listSpaces(ListSpacesContext call) override;
  kj::Promise<void> pin(PinContext call) override;
  kj::Promise<void> unpin(UnpinContext call) override;
  kj::Promise<void> listPins(ListPinsContext call) override;
  kj::Promise<void> dropSpace(DropSpaceContext call) override;

 private:
  Context& context_;
};

// The answer to Operator.stats; docs/protocol.md lists the fields.
std::string stats_json(const Context& context);

}  // namespace terrace::daemon
