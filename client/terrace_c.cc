// libterrace for C over libterrace for C++: no exception and no type of C++ gets through.
#include <algorithm>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "client/client.h"
#include "client/operator.h"
#include "client/terrace.h"

// The handles of the header.
struct terrace_client {
  std::unique_ptr<terrace::client::Client> client;
  std::string socket_path;
  terrace::client::Identity identity;
};
struct terrace_space {
  std::shared_ptr<terrace::client::Space> space;
};

namespace {

using namespace terrace;

static_assert(sizeof(terrace_key) == sizeof(BlockKey));
static_assert(sizeof(int32_t) == sizeof(Token));
static_assert(static_cast<int>(PutOutcome::unreachable) == TERRACE_PUT_UNREACHABLE);

thread_local std::string last_error;

terrace_status to_c(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return TERRACE_OK;
    case StatusCode::invalid_argument:
    case StatusCode::failed_precondition:
      return TERRACE_INVALID_ARGUMENT;
    case StatusCode::unavailable:
      return TERRACE_UNAVAILABLE;
    case StatusCode::deadline_exceeded:
      return TERRACE_DEADLINE_EXCEEDED;
    case StatusCode::resource_exhausted:
    case StatusCode::no_space:
      return TERRACE_RESOURCE_EXHAUSTED;
    case StatusCode::corruption:
      return TERRACE_CORRUPTION;
    default:
      return TERRACE_INTERNAL;
  }
}

terrace_status fail(terrace_status status, const char* why) noexcept {
  try {
    last_error = why;
  } catch (...) {
    last_error.clear();
  }
  return status;
}
terrace_status fail(const Status& status) noexcept {
  return fail(to_c(status.code()), status.message().c_str());
}
terrace_status invalid(const char* why) noexcept { return fail(TERRACE_INVALID_ARGUMENT, why); }

template <typename Body>
terrace_status guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail(TERRACE_RESOURCE_EXHAUSTED, "out of memory");
  } catch (const std::exception& exception) {
    return fail(TERRACE_INTERNAL, exception.what());
  } catch (...) {
    return fail(TERRACE_INTERNAL, "something unexpected was thrown");
  }
}

// A structure of a caller that may be older, and shorter, than this library's: what it does not
// have is zero. False if it is none, or one of a newer header that sets what is not known here.
template <typename T>
bool read_struct(const T* given, T& taken) {
  std::size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > sizeof(T)) return false;
  std::memset(static_cast<void*>(&taken), 0, sizeof taken);
  std::memcpy(static_cast<void*>(&taken), given, size);
  return true;
}
constexpr const char* bad_struct_size = "struct_size is not that of this library's header or older";

std::string text(const char* given) { return given ? given : ""; }

client::Deadline after(uint32_t timeout_ms) {
  return client::Deadline::clock::now() + std::chrono::milliseconds(timeout_ms);
}

std::vector<BlockKey> keys_of(const client::Space& space, const int32_t* tokens,
                              std::size_t token_count) {
  return derive_block_keys(space.digest(), {tokens, token_count}, space.descriptor().block_tokens);
}

}  // namespace

extern "C" {

uint32_t terrace_api_version(void) { return TERRACE_API_VERSION; }
const char* terrace_version(void) { return TERRACE_VERSION; }

const char* terrace_status_name(terrace_status status) {
  switch (status) {
    case TERRACE_OK:
      return "ok";
    case TERRACE_INVALID_ARGUMENT:
      return "invalid_argument";
    case TERRACE_UNAVAILABLE:
      return "unavailable";
    case TERRACE_DEADLINE_EXCEEDED:
      return "deadline_exceeded";
    case TERRACE_RESOURCE_EXHAUSTED:
      return "resource_exhausted";
    case TERRACE_BUFFER_TOO_SMALL:
      return "buffer_too_small";
    case TERRACE_CORRUPTION:
      return "corruption";
    case TERRACE_INTERNAL:
      return "internal";
  }
  return "unknown";
}

const char* terrace_last_error(void) { return last_error.c_str(); }

terrace_status terrace_open(const terrace_client_options* given, terrace_client** client) {
  if (!client) return invalid("client is null");
  *client = nullptr;
  terrace_client_options options{};
  if (given && !read_struct(given, options)) return invalid(bad_struct_size);
  if (options.payload > TERRACE_PAYLOAD_MESSAGES) return invalid("payload is no terrace_payload");
  return guarded([&] {
    client::ClientOptions wanted;
    wanted.socket_path = text(options.socket_path);
    wanted.client_name = options.client_name ? options.client_name : "libterrace";
    wanted.payload = options.payload == TERRACE_PAYLOAD_MESSAGES ? client::PayloadPath::stream
                                                                 : client::PayloadPath::staging;
    if (options.staging_bytes > 0) wanted.staging_bytes = options.staging_bytes;
    wanted.identity.token_file = text(options.token_file);
    const std::string socket_path = wanted.socket_path;
    const client::Identity identity = wanted.identity;
    *client = new terrace_client{client::Client::start(std::move(wanted)), socket_path, identity};
    return TERRACE_OK;
  });
}

void terrace_close(terrace_client* client) {
  (void)guarded([&] {
    delete client;
    return TERRACE_OK;
  });
}

terrace_status terrace_wait_connected(terrace_client* client, uint32_t timeout_ms) {
  if (!client) return invalid("client is null");
  return guarded([&] {
    const Status status = client->client->wait_connected(after(timeout_ms));
    return status.ok() ? TERRACE_OK : fail(TERRACE_UNAVAILABLE, status.message().c_str());
  });
}

uint32_t terrace_request_budget_ms(const terrace_client* client) {
  return client ? static_cast<uint32_t>(client->client->request_budget().count()) : 0;
}

terrace_status terrace_stats(terrace_client* client, uint32_t timeout_ms, char* json,
                             size_t capacity, size_t* length) {
  if (!client || !length || (!json && capacity > 0)) return invalid("an argument is null");
  *length = 0;
  return guarded([&] {
    const client::Deadline deadline = after(timeout_ms);
    const auto viewer =
        client::OperatorClient::connect(client->socket_path, client->identity, deadline);
    if (!viewer) return fail(viewer.error());
    const auto text = (*viewer)->stats_json(deadline);
    if (!text) return fail(text.error());
    *length = text->size();
    if (text->size() >= capacity)
      return fail(TERRACE_BUFFER_TOO_SMALL, "the text is longer than the buffer");
    std::memcpy(json, text->c_str(), text->size() + 1);
    return TERRACE_OK;
  });
}

terrace_status terrace_open_space(terrace_client* client, const terrace_space_descriptor* given,
                                  terrace_space** space) {
  if (!space) return invalid("space is null");
  *space = nullptr;
  if (!client || !given) return invalid("an argument is null");
  terrace_space_descriptor fields{};
  if (!read_struct(given, fields)) return invalid(bad_struct_size);
  return guarded([&] {
    SpaceDescriptor descriptor;
    std::ranges::copy(fields.model_digest, descriptor.model_digest.begin());
    descriptor.numerics_id = text(fields.numerics_id);
    descriptor.kv_dtype = text(fields.kv_dtype);
    descriptor.layout_id = text(fields.layout_id);
    descriptor.block_tokens = fields.block_tokens;
    descriptor.block_bytes = fields.block_bytes;
    descriptor.tensor_parallel_rank = fields.tensor_parallel_rank;
    descriptor.tensor_parallel_size = fields.tensor_parallel_size;
    descriptor.adapter = text(fields.adapter);
    descriptor.adapter_revision = text(fields.adapter_revision);
    descriptor.tenant = text(fields.tenant);
    descriptor.label = text(fields.label);
    if (const Status status = descriptor.validate(); !status.ok()) return fail(status);
    // Engines that say nothing here would share blocks with each other.
    if (descriptor.numerics_id.empty()) return invalid("numerics_id is empty");
    if (descriptor.kv_dtype.empty()) return invalid("kv_dtype is empty");
    if (descriptor.layout_id.empty()) return invalid("layout_id is empty");
    *space = new terrace_space{client->client->open_space(descriptor)};
    return TERRACE_OK;
  });
}

void terrace_close_space(terrace_space* space) {
  (void)guarded([&] {
    delete space;
    return TERRACE_OK;
  });
}

terrace_status terrace_keys(const terrace_space* space, const int32_t* tokens, size_t token_count,
                            terrace_key* keys, size_t capacity, size_t* count) {
  if (!space || !count || (!tokens && token_count > 0) || (!keys && capacity > 0))
    return invalid("an argument is null");
  *count = token_count / space->space->descriptor().block_tokens;
  if (*count > capacity) return fail(TERRACE_BUFFER_TOO_SMALL, "there are more keys than room");
  return guarded([&] {
    const auto made = keys_of(*space->space, tokens, token_count);
    if (!made.empty()) std::memcpy(keys, made.data(), made.size() * sizeof(BlockKey));
    return TERRACE_OK;
  });
}

terrace_status terrace_match(terrace_space* space, const int32_t* tokens, size_t token_count,
                             uint32_t timeout_ms, terrace_match_result* result) {
  if (!space || !result || (!tokens && token_count > 0)) return invalid("an argument is null");
  terrace_match_result found{};
  if (!read_struct(result, found)) return invalid(bad_struct_size);
  return guarded([&] {
    const auto keys = keys_of(*space->space, tokens, token_count);
    const auto match = space->space->match(keys, {tokens, token_count}, after(timeout_ms));
    if (!match) return fail(match.error());
    found.blocks = match->matched_blocks;
    found.load_ns = static_cast<uint64_t>(match->load_time.count());
    std::memcpy(result, &found, found.struct_size);
    return TERRACE_OK;
  });
}

terrace_status terrace_put(terrace_space* space, const terrace_key* parent, const int32_t* tokens,
                           size_t token_count, const void* const* blocks, size_t block_count,
                           uint32_t timeout_ms, uint8_t* outcomes) {
  if (!space || (!tokens && token_count > 0) || (!blocks && block_count > 0))
    return invalid("an argument is null");
  for (size_t i = 0; i < block_count; ++i)
    if (!blocks[i]) return invalid("the address of a block is null");
  return guarded([&] {
    BlockKey above = space->space->digest();
    if (parent) std::ranges::copy(parent->bytes, above.bytes.begin());
    std::vector<const std::byte*> sources;
    for (size_t i = 0; i < block_count; ++i)
      sources.push_back(static_cast<const std::byte*>(blocks[i]));
    const auto put = space->space->put(above, {tokens, token_count}, sources, after(timeout_ms));
    if (!put) return fail(put.error());
    if (outcomes)
      for (size_t i = 0; i < put->size(); ++i) outcomes[i] = static_cast<uint8_t>((*put)[i]);
    return TERRACE_OK;
  });
}

terrace_status terrace_get(terrace_space* space, const terrace_key* keys, size_t key_count,
                           void* const* destinations, const terrace_get_options* given,
                           uint32_t timeout_ms, size_t* count) {
  if (!count) return invalid("count is null");
  *count = 0;
  if (!space || ((!keys || !destinations) && key_count > 0)) return invalid("an argument is null");
  for (size_t i = 0; i < key_count; ++i)
    if (!destinations[i]) return invalid("a destination is null");
  terrace_get_options options{};
  if (given && !read_struct(given, options)) return invalid(bad_struct_size);
  return guarded([&] {
    std::vector<BlockKey> wanted(key_count);
    for (size_t i = 0; i < key_count; ++i)
      std::ranges::copy(keys[i].bytes, wanted[i].bytes.begin());
    std::vector<std::byte*> to;
    for (size_t i = 0; i < key_count; ++i) to.push_back(static_cast<std::byte*>(destinations[i]));
    const auto got = space->space->get(
        wanted, to, {options.prefill_tokens_per_second, std::chrono::milliseconds(options.wait_ms)},
        after(timeout_ms));
    if (!got) return fail(got.error());
    *count = got->size();
    return TERRACE_OK;
  });
}

}  // extern "C"
