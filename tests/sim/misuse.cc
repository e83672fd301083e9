// Calls that make no sense: nothing comes of them.
#include "tests/sim/simulation.h"

namespace terrace::sim {

void Simulation::misuse() {
  const SessionId nobody = 1'000'000'000;
  const Node& node = universe_.node(any_node());
  const auto nothing = [this](const std::vector<AcquiredBlock>& blocks) {
    require(blocks.empty(), "blocks for somebody who is not there");
  };
  Client& client = *any_client(true);
  // A client that is gone gets what an unknown one gets.
  const SessionId session = client.abandoned ? client.session : nobody;
  switch (random_.pick(8)) {
    case 0:
      cache_->acquire(session, 1, id_of(node.space), node.path_keys, {}, nothing);
      break;
    case 1:
      require(cache_->reserve(session, 1, id_of(node.space), node.path_keys, 1).empty(),
              "slots for somebody who is not there");
      break;
    case 2:
      cache_->release(nobody, 1);
      cache_->release(client.session, 1'000'000'000);
      break;
    case 3:
      cache_->end_session(nobody);
      cache_->abandon_session(nobody);
      break;
    case 4: {  // slots of another client
      Client& other = *any_client(true);
      const auto [id, lease] = any_lease(other);
      if (!lease || lease->reserved.empty() || &other == &client) break;
      const storage::SealRequest request{lease->reserved[0].slot, node.parent_key, node.tokens,
                                         node.checksum};
      require(cache_->seal(client.session, id, {&request, 1})[0] == SealOutcome::invalid,
              "a slot of somebody else was sealed");
      break;
    }
    case 5: {  // what is sealed already
      const auto [id, lease] = any_lease(client);
      if (!lease || lease->held.empty()) break;
      const storage::SealRequest request{lease->held[0].slot, node.parent_key, node.tokens,
                                         node.checksum};
      require(cache_->seal(client.session, id, {&request, 1})[0] == SealOutcome::invalid,
              "a slot was sealed twice");
      break;
    }
    case 6:
      require(cache_->match(999'999, node.path_keys, node.path_tokens).matched_blocks == 0,
              "a match in an unknown space");
      break;
    default:
      require(!cache_->open_space({}), "a space that does not validate");
  }
}

}  // namespace terrace::sim
