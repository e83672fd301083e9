/* c_api_check SOCKET [absent]: the C API against a real daemon, or without one. Exits with 0 if all
 * is as terrace.h says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/terrace.h"

enum { block_tokens = 16, block_bytes = 48 * 1024, blocks = 50, patience_ms = 60000 };

static int failures = 0;
#define EXPECT(condition)                                                       \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #condition,       \
              terrace_last_error());                                            \
      ++failures;                                                               \
    }                                                                           \
  } while (0)

static terrace_space_descriptor describe(void) {
  terrace_space_descriptor descriptor;
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.struct_size = sizeof descriptor;
  descriptor.numerics_id = "check";
  descriptor.kv_dtype = "u8";
  descriptor.layout_id = "check";
  descriptor.block_tokens = block_tokens;
  descriptor.block_bytes = block_bytes;
  descriptor.tensor_parallel_size = 1;
  return descriptor;
}

static terrace_client* open_client(const char* socket_path, uint32_t payload) {
  terrace_client_options options;
  terrace_client* client = NULL;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.socket_path = socket_path;
  options.staging_bytes = 1 << 20;
  options.payload = payload;
  EXPECT(terrace_open(&options, &client) == TERRACE_OK);
  return client;
}

static void check_arguments(terrace_client* client) {
  terrace_space_descriptor descriptor = describe();
  terrace_client_options options;
  terrace_client* other = NULL;
  terrace_space* space = NULL;
  size_t count = 7;
  EXPECT(terrace_open(NULL, NULL) == TERRACE_INVALID_ARGUMENT);
  memset(&options, 0, sizeof options);
  EXPECT(terrace_open(&options, &other) == TERRACE_INVALID_ARGUMENT && other == NULL);
  options.struct_size = sizeof options + 8; /* of a header to come */
  EXPECT(terrace_open(&options, &other) == TERRACE_INVALID_ARGUMENT);
  EXPECT(strstr(terrace_last_error(), "struct_size") != NULL);
  EXPECT(terrace_open_space(client, NULL, &space) == TERRACE_INVALID_ARGUMENT);
  descriptor.block_tokens = 3;
  EXPECT(terrace_open_space(client, &descriptor, &space) == TERRACE_INVALID_ARGUMENT);
  EXPECT(strstr(terrace_last_error(), "block_tokens") != NULL && space == NULL);
  descriptor = describe();
  descriptor.numerics_id = NULL;
  EXPECT(terrace_open_space(client, &descriptor, &space) == TERRACE_INVALID_ARGUMENT);
  EXPECT(terrace_get(NULL, NULL, 0, NULL, NULL, 0, &count) == TERRACE_INVALID_ARGUMENT);
  EXPECT(count == 0);
  terrace_close(NULL);
  terrace_close_space(NULL);
  EXPECT(strcmp(terrace_status_name(TERRACE_UNAVAILABLE), "unavailable") == 0);
}

static void check_walk(terrace_client* client, int32_t first_token) {
  static unsigned char kv[blocks][block_bytes], back[blocks][block_bytes];
  static char json[1 << 16];
  int32_t tokens[blocks * block_tokens + 5];
  const size_t token_count = sizeof tokens / sizeof *tokens;
  terrace_key keys[blocks];
  const void* sources[blocks];
  void* destinations[blocks];
  uint8_t outcomes[blocks];
  terrace_space_descriptor descriptor = describe();
  terrace_match_result match;
  terrace_get_options get;
  terrace_space* space = NULL;
  size_t count = 0, length = 0, i;

  for (i = 0; i < token_count; ++i) tokens[i] = first_token + (int32_t)i;
  for (i = 0; i < blocks; ++i) {
    memset(kv[i], (int)(i + 1 + (size_t)first_token), block_bytes);
    sources[i] = kv[i];
    destinations[i] = back[i];
  }
  EXPECT(terrace_open_space(client, &descriptor, &space) == TERRACE_OK);
  EXPECT(terrace_keys(space, tokens, token_count, keys, 3, &count) == TERRACE_BUFFER_TOO_SMALL);
  EXPECT(count == blocks);
  EXPECT(terrace_keys(space, tokens, token_count, keys, blocks, &count) == TERRACE_OK);

  memset(&match, 0, sizeof match);
  match.struct_size = sizeof match;
  EXPECT(terrace_match(space, tokens, token_count, patience_ms, &match) == TERRACE_OK);
  EXPECT(match.blocks == 0);
  EXPECT(terrace_get(space, keys, blocks, destinations, NULL, patience_ms, &count) == TERRACE_OK);
  EXPECT(count == 0);

  /* The first block, then those behind it. */
  EXPECT(terrace_put(space, NULL, tokens, block_tokens, sources, 1, patience_ms, outcomes) ==
         TERRACE_OK);
  EXPECT(outcomes[0] == TERRACE_PUT_STORED);
  EXPECT(terrace_put(space, &keys[0], tokens + block_tokens, (blocks - 1) * block_tokens,
                     sources + 1, blocks - 1, patience_ms, outcomes) == TERRACE_OK);
  for (i = 0; i + 1 < blocks; ++i) EXPECT(outcomes[i] == TERRACE_PUT_STORED);
  EXPECT(terrace_put(space, NULL, tokens, block_tokens, sources, 1, patience_ms, NULL) ==
         TERRACE_OK);
  EXPECT(terrace_put(space, &keys[1], tokens, block_tokens, sources, 2, patience_ms, NULL) ==
         TERRACE_INVALID_ARGUMENT);
  /* Behind a block that is not there. */
  keys[0].bytes[0] ^= 1;
  EXPECT(terrace_put(space, &keys[0], tokens, block_tokens, sources, 1, patience_ms, outcomes) ==
         TERRACE_OK);
  EXPECT(outcomes[0] == TERRACE_PUT_UNREACHABLE);
  keys[0].bytes[0] ^= 1;

  EXPECT(terrace_match(space, tokens, token_count, patience_ms, &match) == TERRACE_OK);
  EXPECT(match.blocks == blocks);
  memset(&get, 0, sizeof get);
  get.struct_size = sizeof get.struct_size; /* of a header before any field */
  EXPECT(terrace_get(space, keys, blocks, destinations, &get, patience_ms, &count) == TERRACE_OK);
  EXPECT(count == blocks);
  EXPECT(memcmp(kv, back, sizeof kv) == 0);

  EXPECT(terrace_request_budget_ms(client) > 0);
  EXPECT(terrace_stats(client, patience_ms, json, 3, &length) == TERRACE_BUFFER_TOO_SMALL);
  EXPECT(length > 3);
  EXPECT(terrace_stats(client, patience_ms, json, sizeof json, &length) == TERRACE_OK);
  EXPECT(strlen(json) == length && strstr(json, "\"boot_id\"") != NULL);
  EXPECT(strstr(json, "\"leases\":0") != NULL);
  terrace_close_space(space);
}

static void check_without_daemon(const char* socket_path) {
  terrace_client* client = open_client(socket_path, TERRACE_PAYLOAD_SHARED_MEMORY);
  terrace_space_descriptor descriptor = describe();
  terrace_space* space = NULL;
  static unsigned char kv[block_bytes];
  const void* source = kv;
  void* destination = kv;
  int32_t tokens[block_tokens] = {0};
  terrace_key key;
  size_t count = 1;
  EXPECT(terrace_open_space(client, &descriptor, &space) == TERRACE_OK);
  EXPECT(terrace_wait_connected(client, 1) != TERRACE_OK);
  EXPECT(terrace_keys(space, tokens, block_tokens, &key, 1, &count) == TERRACE_OK && count == 1);
  EXPECT(terrace_get(space, &key, 1, &destination, NULL, patience_ms, &count) ==
         TERRACE_UNAVAILABLE);
  EXPECT(count == 0);
  EXPECT(terrace_put(space, NULL, tokens, block_tokens, &source, 1, patience_ms, NULL) ==
         TERRACE_UNAVAILABLE);
  EXPECT(strlen(terrace_last_error()) > 0);
  terrace_close(client); /* the space outlives it */
  EXPECT(terrace_get(space, &key, 1, &destination, NULL, patience_ms, &count) ==
         TERRACE_UNAVAILABLE);
  terrace_close_space(space);
}

int main(int argc, char** argv) {
  uint32_t payload;
  if (argc < 2) return 2;
  EXPECT(terrace_api_version() == TERRACE_API_VERSION);
  EXPECT(strlen(terrace_version()) > 0);
  if (argc > 2) {
    check_without_daemon(argv[1]);
    return failures != 0;
  }
  for (payload = TERRACE_PAYLOAD_SHARED_MEMORY; payload <= TERRACE_PAYLOAD_MESSAGES; ++payload) {
    terrace_client* client = open_client(argv[1], payload);
    EXPECT(terrace_wait_connected(client, patience_ms) == TERRACE_OK);
    if (payload == TERRACE_PAYLOAD_SHARED_MEMORY) check_arguments(client);
    check_walk(client, (int32_t)(payload * 100000));
    terrace_close(client);
  }
  return failures != 0;
}
