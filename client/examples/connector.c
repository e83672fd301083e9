/* What a connector does: get before prefill, put after it. The "engine" here is a stand-in that
 * fills a block with numbers made from its tokens; replace the marked parts with yours.
 *
 *   cc -std=c11 connector.c $(pkg-config --cflags --libs terrace) -o connector
 *   ./connector            # with terraced running; the second run finds everything
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terrace.h>

enum { block_tokens = 32, block_bytes = 64 * 1024, prompt_tokens = 200 };
enum { prompt_blocks = prompt_tokens / block_tokens };

/* YOUR ENGINE: computes the KV of one block. The same tokens give the same bytes. */
static void prefill_block(const int32_t* tokens, unsigned char* kv) {
  int i;
  for (i = 0; i < block_bytes; ++i) kv[i] = (unsigned char)(tokens[i % block_tokens] * 31 + i);
}

int main(void) {
  static unsigned char kv[prompt_blocks][block_bytes]; /* YOUR ENGINE's KV memory */
  int32_t tokens[prompt_tokens];
  terrace_key keys[prompt_blocks];
  void* destinations[prompt_blocks];
  const void* computed[prompt_blocks];
  uint8_t outcomes[prompt_blocks];
  size_t key_count = 0, cached = 0, i;
  terrace_client* client = NULL;
  terrace_space* space = NULL;
  terrace_client_options options;
  terrace_space_descriptor descriptor;
  terrace_get_options get_options;

  for (i = 0; i < prompt_tokens; ++i) tokens[i] = (int32_t)(i * 7);
  for (i = 0; i < prompt_blocks; ++i) {
    destinations[i] = kv[i];
    computed[i] = kv[i];
  }

  /* Once, when the engine starts. */
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.client_name = "example";
  if (terrace_open(&options, &client) != TERRACE_OK) {
    fprintf(stderr, "connector: %s\n", terrace_last_error());
    return 1;
  }
  memset(&descriptor, 0, sizeof descriptor);
  descriptor.struct_size = sizeof descriptor;
  memset(descriptor.model_digest, 1, sizeof descriptor.model_digest); /* of YOUR weights */
  descriptor.numerics_id = "example engine 1";
  descriptor.kv_dtype = "u8";
  descriptor.layout_id = "example";
  descriptor.block_tokens = block_tokens;
  descriptor.block_bytes = block_bytes;
  descriptor.tensor_parallel_size = 1;
  descriptor.label = "example model";
  if (terrace_open_space(client, &descriptor, &space) != TERRACE_OK) {
    fprintf(stderr, "connector: %s\n", terrace_last_error());
    terrace_close(client);
    return 1;
  }
  if (terrace_wait_connected(client, 1000) != TERRACE_OK)
    fprintf(stderr, "connector: no cache: %s; going on without it\n", terrace_last_error());

  /* For each prompt, before prefill: whatever goes wrong, nothing is cached. */
  if (terrace_keys(space, tokens, prompt_tokens, keys, prompt_blocks, &key_count) != TERRACE_OK)
    key_count = 0;
  memset(&get_options, 0, sizeof get_options);
  get_options.struct_size = sizeof get_options;
  get_options.prefill_tokens_per_second = 1000; /* as measured by YOUR ENGINE */
  if (terrace_get(space, keys, key_count, destinations, &get_options,
                  terrace_request_budget_ms(client), &cached) != TERRACE_OK)
    cached = 0;

  /* Prefill of the rest. (An engine computes at least the last token itself, for its logits.) */
  for (i = cached; i < prompt_blocks; ++i) prefill_block(tokens + i * block_tokens, kv[i]);

  /* After prefill, best once the first token is out: what was computed. */
  if (cached < key_count &&
      terrace_put(space, cached > 0 ? &keys[cached - 1] : NULL, tokens + cached * block_tokens,
                  (key_count - cached) * block_tokens, computed + cached, key_count - cached,
                  1000, outcomes) != TERRACE_OK)
    fprintf(stderr, "connector: not stored: %s\n", terrace_last_error());

  printf("%lu of %d blocks were cached\n", (unsigned long)cached, (int)prompt_blocks);
  terrace_close_space(space);
  terrace_close(client);
  return 0;
}
