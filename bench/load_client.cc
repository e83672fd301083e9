#include "bench/load_client.h"

#include <algorithm>
#include <cstring>

#include "core/checksum.h"
#include "protocol/descriptor.h"
#include "protocol/packed.h"
#include "tests/support/keyed_bytes.h"

namespace terrace::bench {

namespace {

using protocol::pack;

// Of one in so many prompts the sizes of messages are noted, and the bytes of a block are looked
// at.
constexpr std::size_t sampled_part = 16;
// What a ping's message has besides its data.
constexpr std::uint64_t ping_request_overhead_bytes = 16, ping_reply_overhead_bytes = 8;
// Outcomes of a seal, as the protocol numbers them.
constexpr std::uint8_t sealed = 0, invalid = 2;

template <typename Params, typename Results>
std::uint64_t request_bytes(capnp::Request<Params, Results>& request) {
  return request.totalSize().wordCount * sizeof(capnp::word);
}

template <typename Results>
std::uint64_t reply_bytes(const capnp::Response<Results>& response) {
  return response.totalSize().wordCount * sizeof(capnp::word);
}

// Room for a call with so many bytes of data, as the client library asks for it.
capnp::MessageSize call_size(std::size_t data_bytes) {
  constexpr std::size_t words_around_data = 16;
  return {words_around_data + data_bytes / sizeof(capnp::word), 0};
}

std::vector<std::uint64_t> read_slots(capnp::Data::Reader data) {
  const auto slots = protocol::unpack<std::uint64_t>(data);
  if (!slots) return {};
  return {slots->begin(), slots->end()};
}

}  // namespace

kj::Promise<void> LoadClient::open_space(const SpaceDescriptor& descriptor) {
  space_digest_ = descriptor.digest();
  auto request = link_->session().openSpaceRequest();
  protocol::write_descriptor(descriptor, request.initDescriptor());
  return request.send().then([this](auto&& opened) { space_ = opened.getSpace(); });
}

void LoadClient::answered(LoadCall call) {
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - sent_at_).count();
  ++figures_->requests;
  figures_->latency_us.add(us);
  figures_->latency_us_by_call[static_cast<std::size_t>(call)].add(us);
}

void LoadClient::note_sizes(LoadCall call, std::uint64_t request, std::uint64_t reply) {
  figures_->sizes[static_cast<std::size_t>(call)].add(request, reply);
}

kj::Promise<void> LoadClient::store(const Chain& chain, LoadFigures& figures) {
  figures_ = &figures;
  std::copy(chain.tokens.begin(), chain.tokens.end(), sequence_.tokens.begin());
  std::copy(chain.keys.begin(), chain.keys.end(), sequence_.keys.begin());
  ++lease_;
  return reserve(0, chain.keys.size()).then([this] { return release(); });
}

kj::Promise<void> LoadClient::run_mix(Clock::time_point end, LoadFigures& figures) {
  figures_ = &figures;
  if (Clock::now() >= end) return kj::READY_NOW;
  prompts_.draw(sequence_);
  sampled_ = prompts_.one_in(sampled_part);
  ++lease_;
  return match()
      .then([this] { return acquire(); })
      .then([this](std::size_t present) { return reserve(present, sequence_blocks); })
      .then([this] { return release(); })
      .then([this, end, &figures] { return run_mix(end, figures); },
            [&figures](kj::Exception&& exception) -> kj::Promise<void> {
              figures.fail(exception.getDescription().cStr());
              return kj::READY_NOW;
            });
}

kj::Promise<void> LoadClient::match() {
  auto request = space_.matchRequest(
      call_size(prompt_blocks * (sizeof(BlockKey) + load_block_tokens * sizeof(Token))));
  request.setKeys(pack(std::span<const BlockKey>(sequence_.keys).first(prompt_blocks)));
  request.setTokens(
      pack(std::span<const Token>(sequence_.tokens).first(prompt_blocks * load_block_tokens)));
  const std::uint64_t bytes = sampled_ ? request_bytes(request) : 0;
  sent();
  return request.send().then([this, bytes](auto&& match) {
    answered(LoadCall::match);
    if (sampled_) note_sizes(LoadCall::match, bytes, reply_bytes(match));
    matched_ = std::min<std::size_t>(match.getMatchedBlocks(), prompt_blocks);
    figures_->asked_blocks += prompt_blocks;
    figures_->matched_blocks += matched_;
  });
}

kj::Promise<std::size_t> LoadClient::acquire() {
  auto request = space_.acquireRequest(call_size(matched_ * sizeof(BlockKey)));
  request.setLease(lease_);
  request.setKeys(pack(std::span<const BlockKey>(sequence_.keys).first(matched_)));
  const std::uint64_t bytes = sampled_ ? request_bytes(request) : 0;
  sent();
  return request.send().then([this, bytes](auto&& acquired) {
    answered(LoadCall::acquire);
    const auto slots = read_slots(acquired.getSlots());
    if (sampled_) {
      note_sizes(LoadCall::acquire, bytes, reply_bytes(acquired));
      verify_one(slots);
    }
    return std::min(slots.size(), prompt_blocks);
  });
}

void LoadClient::verify_one(std::span<const std::uint64_t> slots) {
  if (slots.empty()) return;
  const std::size_t block = prompts_.below(slots.size());
  ++figures_->verified_blocks;
  if (!test_support::holds_key(block_at(slots[block]), sequence_.keys[block]))
    figures_->fail("a block has the bytes of another");
}

kj::Promise<void> LoadClient::reserve(std::size_t first, std::size_t end) {
  auto request = space_.reserveRequest(call_size((end - first) * sizeof(BlockKey)));
  request.setLease(lease_);
  request.setKeys(pack(std::span<const BlockKey>(sequence_.keys).subspan(first, end - first)));
  const std::uint64_t bytes = sampled_ ? request_bytes(request) : 0;
  sent();
  return request.send().then([this, bytes, first, end](auto&& reserved) -> kj::Promise<void> {
    answered(LoadCall::reserve);
    if (sampled_) note_sizes(LoadCall::reserve, bytes, reply_bytes(reserved));
    const auto slots = read_slots(reserved.getSlots());
    if (slots.size() < end - first) ++figures_->short_reservations;
    return seal(first, slots);
  });
}

kj::Promise<void> LoadClient::seal(std::size_t first, const std::vector<std::uint64_t>& slots) {
  auto request = space_.sealRequest(
      call_size(slots.size() * (sizeof(BlockKey) + (load_block_tokens + 16) * sizeof(Token))));
  request.setLease(lease_);
  auto blocks = request.initBlocks(static_cast<unsigned>(slots.size()));
  for (unsigned i = 0; i < slots.size(); ++i) {
    const std::size_t block = first + i;
    const std::span<std::byte> bytes = block_at(slots[i]);
    test_support::fill_with_key(bytes, sequence_.keys[block]);
    blocks[i].setSlot(slots[i]);
    blocks[i].setParent(pack(sequence_.parent_of(space_digest_, block)));
    blocks[i].setTokens(pack(sequence_.tokens_of(block)));
    blocks[i].setChecksum(payload_checksum(bytes));
  }
  const std::uint64_t bytes = sampled_ ? request_bytes(request) : 0;
  sent();
  return request.send().then([this, bytes](auto&& answer) {
    answered(LoadCall::seal);
    if (sampled_) note_sizes(LoadCall::seal, bytes, reply_bytes(answer));
    for (const kj::byte outcome : answer.getOutcomes()) {
      if (outcome == sealed) ++figures_->sealed_blocks;
      if (outcome == invalid) figures_->fail("a seal was refused");
    }
  });
}

kj::Promise<void> LoadClient::release() {
  auto request = space_.releaseRequest(call_size(0));
  request.initLeases(1).set(0, lease_);
  const std::uint64_t bytes = sampled_ ? request_bytes(request) : 0;
  sent();
  return request.send().then([this, bytes](auto&& answer) {
    answered(LoadCall::release);
    if (sampled_) note_sizes(LoadCall::release, bytes, reply_bytes(answer));
  });
}

kj::Promise<void> LoadClient::run_pings(Clock::time_point end,
                                        const std::array<CallSizes, load_calls>& sizes,
                                        LoadFigures& figures) {
  figures_ = &figures;
  return ping(0, end, sizes).catch_([&figures](kj::Exception&& exception) {
    figures.fail(exception.getDescription().cStr());
  });
}

kj::Promise<void> LoadClient::ping(std::size_t kind, Clock::time_point end,
                                   const std::array<CallSizes, load_calls>& sizes) {
  if (Clock::now() >= end) return kj::READY_NOW;
  const auto bytes_without = [](std::uint64_t bytes, std::uint64_t overhead) {
    return static_cast<unsigned>(bytes - std::min(bytes, overhead));
  };
  const unsigned data_bytes =
      bytes_without(sizes[kind].mean_request(), ping_request_overhead_bytes);
  auto request = link_->daemon().pingRequest(call_size(data_bytes));
  request.initData(data_bytes);
  request.setReplyBytes(bytes_without(sizes[kind].mean_reply(), ping_reply_overhead_bytes));
  sent();
  return request.send().ignoreResult().then([this, kind, end, &sizes] {
    answered(static_cast<LoadCall>(kind));
    return ping((kind + 1) % load_calls, end, sizes);
  });
}

}  // namespace terrace::bench
