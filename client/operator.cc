#include "client/operator.h"

#include <kj/async-io.h>

#include <algorithm>

#include "client/link.h"
#include "protocol/descriptor.h"
#include "protocol/packed.h"

namespace terrace::client {
namespace {

tl::unexpected<Status> not_understood() {
  return error(StatusCode::internal, "terraced gave an answer that makes no sense");
}

Result<BlockListing> read_block(protocol::BlockInfo::Reader from) {
  const auto space = protocol::unpack_key(from.getSpace());
  const auto key = protocol::unpack_key(from.getKey());
  const auto parent = protocol::unpack_key(from.getParent());
  const auto tokens = protocol::unpack<Token>(from.getTokens());
  if (!space || !key || !parent || !tokens) return not_understood();
  BlockListing block;
  block.space = *space;
  block.key = *key;
  block.parent = *parent;
  block.depth = from.getDepth();
  block.tokens.assign(tokens->begin(), tokens->end());
  for (std::size_t i = 0; i < tier_count; ++i) block.tiers[i] = (from.getTiers() >> i & 1) != 0;
  block.holders = from.getHolders();
  block.recency = from.getRecency();
  block.bytes = from.getBytes();
  return block;
}

}  // namespace

class OperatorClient::Impl {
 public:
  Impl(kj::AsyncIoContext io, kj::Own<kj::AsyncCapabilityStream> stream)
      : io_(kj::mv(io)),
        stream_(kj::mv(stream)),
        rpc_(*stream_),
        operator_(rpc_.bootstrap()
                      .castAs<protocol::Daemon>()
                      .openOperatorRequest()
                      .send()
                      .getOperator()) {}

  protocol::Operator::Client& capability() { return operator_; }

  // Waits for an answer and reads it with `read`.
  template <typename T, typename Results, typename Read>
  Result<T> wait(capnp::RemotePromise<Results> answer, Deadline deadline, Read read) {
    using Response = capnp::Response<Results>;
    bool late = false;
    const std::chrono::nanoseconds left = deadline - Deadline::clock::now();
    kj::Promise<Response> response = kj::mv(answer);
    auto in_time = response.exclusiveJoin(
        io_.provider->getTimer()
            .afterDelay(std::max<std::int64_t>(left.count(), 0) * kj::NANOSECONDS)
            .then([&late]() -> kj::Promise<Response> {
              late = true;
              return KJ_EXCEPTION(OVERLOADED, "late");
            }));
    try {
      return read(in_time.wait(io_.waitScope));
    } catch (const kj::Exception& exception) {
      if (late) return error(StatusCode::deadline_exceeded, "terraced did not answer in time");
      return error(to_status(exception));
    }
  }

 private:
  kj::AsyncIoContext io_;
  kj::Own<kj::AsyncCapabilityStream> stream_;
  capnp::TwoPartyClient rpc_;
  protocol::Operator::Client operator_;
};

OperatorClient::OperatorClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OperatorClient::~OperatorClient() = default;

Result<std::unique_ptr<OperatorClient>> OperatorClient::connect(const std::string& socket_path) {
  try {
    auto io = kj::setupAsyncIo();
    auto stream = connect_to_socket(io, socket_path.empty() ? default_socket_path() : socket_path);
    if (!stream) return error(stream.error());
    return std::unique_ptr<OperatorClient>(
        new OperatorClient(std::make_unique<Impl>(kj::mv(io), kj::mv(*stream))));
  } catch (const kj::Exception& exception) {
    return error(to_status(exception));
  }
}

Result<std::string> OperatorClient::stats_json(Deadline deadline) {
  return impl_->wait<std::string>(impl_->capability().statsRequest().send(), deadline,
                                  [](auto&& answer) -> Result<std::string> {
                                    const auto json = answer.getJson();
                                    return std::string(json.begin(), json.size());
                                  });
}

Result<ListingPage> OperatorClient::list_blocks(const std::optional<BlockKey>& from,
                                                std::uint32_t limit, Deadline deadline) {
  auto request = impl_->capability().listBlocksRequest();
  if (from) request.setFrom(protocol::pack(*from));
  request.setLimit(limit);
  return impl_->wait<ListingPage>(request.send(), deadline,
                                  [](auto&& answer) -> Result<ListingPage> {
                                    ListingPage page;
                                    for (const auto from_daemon : answer.getBlocks()) {
                                      auto block = read_block(from_daemon);
                                      if (!block) return error(block.error());
                                      page.blocks.push_back(std::move(*block));
                                    }
                                    if (answer.getNext().size() > 0) {
                                      page.next = protocol::unpack_key(answer.getNext());
                                      if (!page.next) return not_understood();
                                    }
                                    return page;
                                  });
}

Result<std::vector<SpaceDescriptor>> OperatorClient::list_spaces(Deadline deadline) {
  return impl_->wait<std::vector<SpaceDescriptor>>(
      impl_->capability().listSpacesRequest().send(), deadline,
      [](auto&& answer) -> Result<std::vector<SpaceDescriptor>> {
        std::vector<SpaceDescriptor> spaces;
        for (const auto from_daemon : answer.getSpaces()) {
          auto space = protocol::read_descriptor(from_daemon);
          if (!space) return error(space.error());
          spaces.push_back(std::move(*space));
        }
        return spaces;
      });
}

Result<std::string> fetch_stats_json(const std::string& socket_path, Deadline deadline) {
  auto daemon = OperatorClient::connect(socket_path);
  if (!daemon) return error(daemon.error());
  return (*daemon)->stats_json(deadline);
}

}  // namespace terrace::client
