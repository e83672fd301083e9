/* libterrace for C: how an inference engine with KV memory of its own keeps the KV of prompts in
 * terraced. docs/connectors.md tells the story.
 *
 * Rules that hold for every function:
 *  - It fails open: none takes longer than its timeout, and without a daemon each answers
 *    TERRACE_UNAVAILABLE at once; the connection comes back by itself. Whatever goes wrong, the
 *    engine computes.
 *  - Any thread may call any function at any time, several at once, but for closing a handle, which
 *    must be the last thing done with it. The library has one thread of its own a client.
 *  - Nothing of the caller's memory is touched once a function has returned.
 *  - Sizes are in bytes, times in milliseconds; texts are UTF-8 and end with a zero byte.
 *  - A structure begins with struct_size, which the caller sets to its sizeof: later versions add
 *    fields at the end, and older callers go on working.
 *  - No C++ exception leaves the library. Not for use in a child process after fork().
 */
#ifndef TERRACE_H
#define TERRACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised with each addition; what is here stays as it is. */
#define TERRACE_API_VERSION 1

#if defined(__GNUC__)
#define TERRACE_API __attribute__((visibility("default")))
#else
#define TERRACE_API
#endif

/* The TERRACE_API_VERSION that the library was built with: at least that of the caller's header. */
TERRACE_API uint32_t terrace_api_version(void);
/* Of Terrace as a whole, such as "0.1.0". */
TERRACE_API const char* terrace_version(void);

typedef enum terrace_status {
  TERRACE_OK = 0,
  TERRACE_INVALID_ARGUMENT = 1,   /* the caller's fault; asking again will not help */
  TERRACE_UNAVAILABLE = 2,        /* no daemon answers now */
  TERRACE_DEADLINE_EXCEEDED = 3,  /* the timeout has passed */
  TERRACE_RESOURCE_EXHAUSTED = 4, /* a limit was reached, or memory */
  TERRACE_BUFFER_TOO_SMALL = 5,   /* the caller's; the size that it takes has been written */
  TERRACE_CORRUPTION = 6,         /* a block did not verify; nothing of it is used */
  TERRACE_INTERNAL = 7            /* anything else */
} terrace_status;

/* Such as "unavailable"; never null. */
TERRACE_API const char* terrace_status_name(terrace_status status);

/* What the last function that failed on this thread has to say, for people. Never null; valid until
 * this thread calls the library again. */
TERRACE_API const char* terrace_last_error(void);

typedef struct terrace_client terrace_client;
typedef struct terrace_space terrace_space;

/* The name of a block: of its tokens, all before them, and the space. */
typedef struct terrace_key {
  uint8_t bytes[32];
} terrace_key;

/* --- The connection ------------------------------------------------------------------------- */

typedef enum terrace_payload {
  TERRACE_PAYLOAD_SHARED_MEMORY = 0, /* the daemon runs on this host */
  TERRACE_PAYLOAD_MESSAGES = 1       /* no memory can be shared with it; slower */
} terrace_payload;

typedef struct terrace_client_options {
  size_t struct_size;
  const char* socket_path; /* null: $TERRACE_SOCKET, else the default of terraced */
  const char* client_name; /* for the daemon's log; null: "libterrace" */
  /* Of payload that is on its way at one time, at least a block; 0: 64 MiB. */
  uint64_t staging_bytes;
  uint32_t payload; /* a terrace_payload */
  /* The file whose first line is the token to log in with; null: none. */
  const char* token_file;
} terrace_client_options;

/* Begins to connect and returns at once, whether there is a daemon or not. `options` may be null.
 * *client is to be closed; null after an error. */
TERRACE_API terrace_status terrace_open(const terrace_client_options* options,
                                        terrace_client** client);

/* Ends the connection. Its spaces may be closed before or afterwards. Null does nothing. */
TERRACE_API void terrace_close(terrace_client* client);

/* Waits until the daemon has answered. TERRACE_UNAVAILABLE, with the reason, at the timeout. */
TERRACE_API terrace_status terrace_wait_connected(terrace_client* client, uint32_t timeout_ms);

/* How much of one request the daemon's operator lets the cache use up in all: what the timeouts of
 * one request's calls should add up to. */
TERRACE_API uint32_t terrace_request_budget_ms(const terrace_client* client);

/* The daemon's counters as one JSON object (docs/protocol.md), for logins that may look, with a
 * zero byte at its end. *length is its length without that, also if `capacity` is too small for it.
 */
TERRACE_API terrace_status terrace_stats(terrace_client* client, uint32_t timeout_ms, char* json,
                                         size_t capacity, size_t* length);

/* --- Spaces --------------------------------------------------------------------------------- */

/* Everything that makes KV bytes exchangeable. Two engines share blocks if, and only if, all of it
 * but the label is the same: what may change a bit of the KV belongs in here. Null texts are empty.
 */
typedef struct terrace_space_descriptor {
  size_t struct_size;
  uint8_t model_digest[32];      /* of weights and hyper-parameters */
  const char* numerics_id;       /* how it computes: engine, kernels, their version. Not empty */
  const char* kv_dtype;          /* such as "bf16". Not empty */
  const char* layout_id;         /* how bytes lie in a block. Not empty */
  uint32_t block_tokens;         /* a power of two, at most 512 */
  uint64_t block_bytes;          /* a multiple of 64, at most 64 MiB */
  uint32_t tensor_parallel_rank; /* each rank has blocks of its own */
  uint32_t tensor_parallel_size; /* 1 without tensor parallelism */
  const char* adapter;           /* LoRA */
  const char* adapter_revision;
  const char* tenant;
  const char* label; /* for people: the model's name */
} terrace_space_descriptor;

/* Needs no daemon: it is opened on every connection that comes. TERRACE_INVALID_ARGUMENT names the
 * field that is absurd. *space is to be closed; null after an error. */
TERRACE_API terrace_status terrace_open_space(terrace_client* client,
                                              const terrace_space_descriptor* descriptor,
                                              terrace_space** space);
TERRACE_API void terrace_close_space(terrace_space* space);

/* The keys of the full blocks of a prompt, of which there are token_count / block_tokens; tokens
 * that fill no block have none. Needs no daemon. *count is how many they are, also if `capacity`
 * keys are too few for them (TERRACE_BUFFER_TOO_SMALL: nothing is written). */
TERRACE_API terrace_status terrace_keys(const terrace_space* space, const int32_t* tokens,
                                        size_t token_count, terrace_key* keys, size_t capacity,
                                        size_t* count);

/* --- Blocks --------------------------------------------------------------------------------- */

typedef struct terrace_match_result {
  size_t struct_size;
  size_t blocks;    /* of the prompt that are there: a leading run */
  uint64_t load_ns; /* about how long the daemon takes to bring them into its fastest tier */
} terrace_match_result;

/* How much of a prompt is cached. One round trip, no payload; counts as no use. */
TERRACE_API terrace_status terrace_match(terrace_space* space, const int32_t* tokens,
                                         size_t token_count, uint32_t timeout_ms,
                                         terrace_match_result* result);

/* What became of a block that was put. */
typedef enum terrace_put_outcome {
  TERRACE_PUT_STORED = 0,     /* matchable from now on */
  TERRACE_PUT_PRESENT = 1,    /* was there already */
  TERRACE_PUT_NO_ROOM = 2,    /* everything is in use, or the daemon is stopping */
  TERRACE_PUT_REFUSED = 3,    /* its bytes changed while they were copied */
  TERRACE_PUT_UNREACHABLE = 4 /* a block before it is not there */
} terrace_put_outcome;

/* Stores consecutive full blocks of a prompt: block_count addresses of block_bytes bytes each, and
 * the block_count * block_tokens tokens of them. `parent` is the key of the block before the first;
 * null if they begin the prompt. Put all blocks of a prompt that were computed: those that are
 * there cost nothing. `outcomes` gets a terrace_put_outcome a block and may be null. Never waits
 * for room. After an error some of them may be stored. */
TERRACE_API terrace_status terrace_put(terrace_space* space, const terrace_key* parent,
                                       const int32_t* tokens, size_t token_count,
                                       const void* const* blocks, size_t block_count,
                                       uint32_t timeout_ms, uint8_t* outcomes);

typedef struct terrace_get_options {
  size_t struct_size;
  /* How fast this engine computes a prompt; 0 if unknown. What would load slower is left out. */
  double prefill_tokens_per_second;
  /* How long to wait for blocks that another session is computing; 0: not at all. Within the
   * timeout. */
  uint32_t wait_ms;
} terrace_get_options;

/* Fetches the leading run of `keys` that is there, each into its destination of block_bytes bytes,
 * verified. *count is how many came; what the destinations behind it hold is undefined. `options`
 * may be null. At the timeout the run is what had come: an error only if nothing had. */
TERRACE_API terrace_status terrace_get(terrace_space* space, const terrace_key* keys,
                                       size_t key_count, void* const* destinations,
                                       const terrace_get_options* options, uint32_t timeout_ms,
                                       size_t* count);

#ifdef __cplusplus
}
#endif

#endif
