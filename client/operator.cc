#include "client/operator.h"

#include <kj/async-io.h>

#include <algorithm>
#include <deque>

#include "client/call.h"
#include "client/limits.h"
#include "client/link.h"
#include "client/transport.h"
#include "core/checksum.h"
#include "protocol/descriptor.h"
#include "protocol/packed.h"

namespace terrace::client {
namespace {

// Of a payload in one answer, if the daemon allows as much.
constexpr std::uint32_t asked_piece_bytes = 1u << 20;

// Of any answer that is one JSON text.
constexpr auto read_json = [](auto&& answer) -> Result<std::string> {
  const auto json = answer.getJson();
  return std::string(json.begin(), json.size());
};

Result<BlockListing> read_listed_block(protocol::BlockInfo::Reader from) {
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
  block.uses = from.getUses();
  block.created_unix_ms = from.getCreatedUnixMs();
  return block;
}

Result<PinListing> read_pin(protocol::PinInfo::Reader from) {
  const auto key = protocol::unpack_key(from.getKey());
  const auto space = protocol::unpack_key(from.getSpace());
  const std::uint8_t tier = from.getTier();
  if (!key || !space || (tier >= tier_count && tier != protocol::ANY_TIER)) return not_understood();
  PinListing pin;
  pin.key = *key;
  pin.space = *space;
  if (tier != protocol::ANY_TIER) pin.tier = static_cast<Tier>(tier);
  pin.expires_unix_ms = from.getExpiresUnixMs();
  pin.blocks = from.getBlocks();
  pin.bytes = from.getBytes();
  pin.whole = from.getWhole();
  return pin;
}

constexpr auto read_import = [](auto&& from) -> Result<ImportAnswer> {
  if (from.getOutcome() >= import_outcomes || from.getMaxPieceBytes() == 0) return not_understood();
  return ImportAnswer{static_cast<ImportOutcome>(from.getOutcome()),
                      std::string(from.getReason().cStr())};
};

// Callers give their limits in whole seconds, a moment before they are looked at here.
std::string late_text(std::chrono::nanoseconds limit) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(limit);
  return "terraced did not answer within " + std::to_string(seconds.count()) + " s";
}

}  // namespace

class OperatorClient::Impl {
 public:
  Impl(kj::AsyncIoContext io, kj::Own<Transport> transport)
      : io_(kj::mv(io)), transport_(kj::mv(transport)) {}

  // Without waiting for the answer: calls travel right behind.
  Status log_in(const Identity& identity) {
    auto daemon = transport_->rpc().bootstrap().castAs<protocol::Daemon>();
    auto request = login_request(daemon, identity, "terrace");
    if (!request) return request.error();
    auto login = request->send();
    viewer_ = login.getViewer();
    operator_ = login.getOperator();
    return {};
  }

  // A block whose last piece is on its way, or of which all is known already.
  struct StartedImport {
    std::optional<capnp::RemotePromise<protocol::Operator::ImportBlockResults>> pending;
    std::optional<ImportAnswer> answer;
  };
  std::deque<StartedImport> imports;

  protocol::Viewer::Client& viewer() { return viewer_; }
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
      if (late) return error(StatusCode::deadline_exceeded, late_text(left));
      if (exception.getType() == kj::Exception::Type::UNIMPLEMENTED)
        return error(StatusCode::unimplemented, older_daemon);
      return error(to_status(exception));
    }
  }

 private:
  kj::AsyncIoContext io_;
  kj::Own<Transport> transport_;
  protocol::Viewer::Client viewer_ = nullptr;
  protocol::Operator::Client operator_ = nullptr;
};

OperatorClient::OperatorClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OperatorClient::~OperatorClient() = default;

Result<std::unique_ptr<OperatorClient>> OperatorClient::connect(const std::string& socket_path,
                                                                const Identity& identity,
                                                                Deadline deadline) {
  try {
    auto io = kj::setupAsyncIo();
    const std::chrono::nanoseconds limit = std::clamp<std::chrono::nanoseconds>(
        deadline - Deadline::clock::now(), std::chrono::nanoseconds(0), handshake_limit);
    auto late = io.provider->getTimer()
                    .afterDelay(limit.count() * kj::NANOSECONDS)
                    .then([]() -> kj::Promise<kj::Own<Transport>> {
                      return connection_failure("connecting to terraced takes too long");
                    });
    auto transport =
        open_transport(io, socket_path, identity).exclusiveJoin(kj::mv(late)).wait(io.waitScope);
    auto impl = std::make_unique<Impl>(kj::mv(io), kj::mv(transport));
    if (Status status = impl->log_in(identity); !status.ok()) return error(std::move(status));
    return std::unique_ptr<OperatorClient>(new OperatorClient(std::move(impl)));
  } catch (const kj::Exception& exception) {
    return error(to_status(exception));
  }
}

Result<std::string> OperatorClient::stats_json(Deadline deadline) {
  return impl_->wait<std::string>(impl_->viewer().statsRequest().send(), deadline, read_json);
}

Result<ListingPage> OperatorClient::list_blocks(const std::optional<BlockKey>& from,
                                                std::uint32_t limit, Deadline deadline) {
  auto request = impl_->viewer().listBlocksRequest();
  if (from) request.setFrom(protocol::pack(*from));
  request.setLimit(limit);
  return impl_->wait<ListingPage>(request.send(), deadline,
                                  [](auto&& answer) -> Result<ListingPage> {
                                    ListingPage page;
                                    for (const auto from_daemon : answer.getBlocks()) {
                                      auto block = read_listed_block(from_daemon);
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
      impl_->viewer().listSpacesRequest().send(), deadline,
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

Result<PinListing> OperatorClient::pin(const BlockKey& key, const std::optional<Tier>& tier,
                                       std::chrono::milliseconds ttl, Deadline deadline) {
  auto request = impl_->capability().pinRequest();
  request.setKey(protocol::pack(key));
  request.setTier(tier ? static_cast<std::uint8_t>(*tier) : protocol::ANY_TIER);
  request.setTtlMs(static_cast<std::uint64_t>(ttl.count()));
  return impl_->wait<PinListing>(request.send(), deadline,
                                 [](auto&& answer) { return read_pin(answer.getPin()); });
}

Status OperatorClient::unpin(const BlockKey& key, Deadline deadline) {
  auto request = impl_->capability().unpinRequest();
  request.setKey(protocol::pack(key));
  const auto done =
      impl_->wait<bool>(request.send(), deadline, [](auto&&) -> Result<bool> { return true; });
  return done ? Status() : done.error();
}

Result<std::vector<PinListing>> OperatorClient::list_pins(Deadline deadline) {
  return impl_->wait<std::vector<PinListing>>(impl_->viewer().listPinsRequest().send(), deadline,
                                              [](auto&& answer) -> Result<std::vector<PinListing>> {
                                                std::vector<PinListing> pins;
                                                for (const auto from_daemon : answer.getPins()) {
                                                  auto pin = read_pin(from_daemon);
                                                  if (!pin) return error(pin.error());
                                                  pins.push_back(std::move(*pin));
                                                }
                                                return pins;
                                              });
}

Result<std::uint64_t> OperatorClient::drop_space(const BlockKey& digest, Deadline deadline) {
  auto request = impl_->capability().dropSpaceRequest();
  request.setDigest(protocol::pack(digest));
  return impl_->wait<std::uint64_t>(
      request.send(), deadline,
      [](auto&& answer) -> Result<std::uint64_t> { return answer.getBlocks(); });
}

Result<std::uint64_t> OperatorClient::evict(const BlockKey& key, Deadline deadline) {
  auto request = impl_->capability().evictRequest();
  request.setKey(protocol::pack(key));
  return impl_->wait<std::uint64_t>(
      request.send(), deadline,
      [](auto&& answer) -> Result<std::uint64_t> { return answer.getBlocks(); });
}

Result<std::string> OperatorClient::inspect_json(const BlockKey& key, Deadline deadline) {
  auto request = impl_->viewer().inspectRequest();
  request.setKey(protocol::pack(key));
  return impl_->wait<std::string>(request.send(), deadline, read_json);
}

Result<std::string> OperatorClient::explain_json(const BlockKey& space,
                                                 std::span<const Token> tokens, Deadline deadline) {
  auto request = impl_->viewer().explainRequest();
  request.setSpace(protocol::pack(space));
  request.setTokens(protocol::pack(tokens));
  return impl_->wait<std::string>(request.send(), deadline, read_json);
}

Result<std::vector<Tier>> OperatorClient::warm(const BlockKey& space,
                                               std::span<const BlockKey> keys,
                                               std::span<const Token> tokens, Tier into,
                                               Deadline deadline) {
  auto request = impl_->capability().warmRequest();
  request.setTier(static_cast<std::uint8_t>(into));
  request.setSpace(protocol::pack(space));
  request.setKeys(protocol::pack(keys));
  request.setTokens(protocol::pack(tokens));
  return impl_->wait<std::vector<Tier>>(
      request.send(), deadline, [&](auto&& answer) -> Result<std::vector<Tier>> {
        const auto numbers = protocol::unpack<std::uint8_t>(answer.getTiers());
        if (!numbers || numbers->size() > keys.size()) return not_understood();
        std::vector<Tier> tiers;
        for (const std::uint8_t number : *numbers) {
          if (number >= tier_count) return not_understood();
          tiers.push_back(static_cast<Tier>(number));
        }
        return tiers;
      });
}

Result<BlockBytes> OperatorClient::read_block(const BlockKey& key, Deadline deadline) {
  BlockBytes read;
  do {
    auto request = impl_->capability().readBlockRequest();
    request.setKey(protocol::pack(key));
    request.setOffset(read.payload.size());
    request.setBytes(asked_piece_bytes);
    const auto piece =
        impl_->wait<bool>(request.send(), deadline, [&](auto&& answer) -> Result<bool> {
          auto block = read_listed_block(answer.getBlock());
          if (!block) return error(block.error());
          const auto data = protocol::unpack<std::byte>(answer.getData());
          if (!data || data->empty() || block->key != key || block->bytes > max_block_bytes ||
              data->size() > block->bytes - std::min(block->bytes, read.payload.size()))
            return not_understood();
          read.block = std::move(*block);
          read.checksum = answer.getChecksum();
          read.created_unix_ms = answer.getCreatedUnixMs();
          read.payload.insert(read.payload.end(), data->begin(), data->end());
          return true;
        });
    if (!piece) return error(piece.error());
  } while (read.payload.size() < read.block.bytes);
  if (payload_checksum(read.payload) != read.checksum)
    return error(StatusCode::corruption,
                 "what arrived of block " + key.hex() + " is not what its checksum says");
  return read;
}

Status OperatorClient::import_space(const SpaceDescriptor& space, Deadline deadline) {
  auto request = impl_->capability().importSpaceRequest();
  protocol::write_descriptor(space, request.initDescriptor());
  const auto digest =
      impl_->wait<BlockKey>(request.send(), deadline, [](auto&& answer) -> Result<BlockKey> {
        const auto key = protocol::unpack_key(answer.getDigest());
        return key ? Result<BlockKey>(*key) : not_understood();
      });
  if (!digest) return digest.error();
  if (*digest != space.digest()) return not_understood().value();
  return {};
}

Status OperatorClient::start_import(const RecordHeader& header, std::span<const std::byte> payload,
                                    Deadline deadline) {
  auto& imports = impl_->imports;
  if (imports.size() >= max_imports_at_once)
    return Status(StatusCode::resource_exhausted, "too many imports are under way");
  std::array<std::byte, record_header_bytes> encoded;
  if (Status status = encode_record_header(header, encoded); !status.ok()) return status;
  std::size_t offset = 0, piece_bytes = 0;  // first only: is it wanted?
  for (;;) {
    auto request = impl_->capability().importBlockRequest();
    request.setHeader(protocol::pack(std::span<const std::byte>(encoded)));
    request.setOffset(offset);
    request.setData(protocol::pack(payload.subspan(offset, piece_bytes)));
    offset += piece_bytes;
    if (piece_bytes > 0 && offset == payload.size()) {
      imports.push_back({request.send(), {}});
      return {};
    }
    std::size_t max_piece_bytes = 0;
    const auto answer = impl_->wait<ImportAnswer>(request.send(), deadline,
                                                  [&](auto&& got) -> Result<ImportAnswer> {
                                                    max_piece_bytes = got.getMaxPieceBytes();
                                                    return read_import(got);
                                                  });
    if (!answer) return answer.error();
    if (answer->outcome != ImportOutcome::wanted) {
      imports.push_back({{}, *answer});
      return {};
    }
    piece_bytes = std::min(max_piece_bytes, payload.size() - offset);
  }
}

Result<ImportAnswer> OperatorClient::finish_import(Deadline deadline) {
  Impl::StartedImport first = std::move(impl_->imports.front());
  impl_->imports.pop_front();
  if (first.answer) return *first.answer;
  auto answer = impl_->wait<ImportAnswer>(kj::mv(*first.pending), deadline, read_import);
  if (answer && answer->outcome == ImportOutcome::wanted) return not_understood();  // it has all
  return answer;
}

Result<VerifyPage> OperatorClient::verify_blocks(const std::optional<BlockKey>& from,
                                                 std::uint32_t blocks, std::uint64_t bytes,
                                                 bool remove, Deadline deadline) {
  auto request = impl_->capability().verifyBlocksRequest();
  if (from) request.setFrom(protocol::pack(*from));
  request.setBlocks(blocks);
  request.setBytes(bytes);
  request.setRemove(remove);
  return impl_->wait<VerifyPage>(request.send(), deadline, [](auto&& answer) -> Result<VerifyPage> {
    VerifyPage page;
    page.json = *read_json(answer);
    if (answer.getNext().size() > 0) {
      page.next = protocol::unpack_key(answer.getNext());
      if (!page.next) return not_understood();
    }
    return page;
  });
}

Result<std::string> OperatorClient::sessions_json(Deadline deadline) {
  return impl_->wait<std::string>(impl_->viewer().sessionsRequest().send(), deadline, read_json);
}

Status OperatorClient::kick(std::uint64_t session_id, Deadline deadline) {
  auto request = impl_->capability().kickRequest();
  request.setSessionId(session_id);
  const auto done =
      impl_->wait<bool>(request.send(), deadline, [](auto&&) -> Result<bool> { return true; });
  return done ? Status() : done.error();
}

Result<std::string> fetch_stats_json(const std::string& socket_path, Deadline deadline,
                                     const Identity& identity) {
  auto daemon = OperatorClient::connect(socket_path, identity);
  if (!daemon) return error(daemon.error());
  return (*daemon)->stats_json(deadline);
}

}  // namespace terrace::client
