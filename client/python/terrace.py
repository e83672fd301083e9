"""libterrace for Python: the KV blocks of an inference engine in terraced.

A thin layer over client/terrace.h (ctypes, nothing but the standard library). Blocks are anything
with the buffer protocol: bytearrays, memoryviews, NumPy arrays, pinned tensors' arrays; they are
copied from and to in place. Calls release the interpreter's lock and may be made from any thread.

    with terrace.Client() as client:
        space = client.open_space(model_digest=..., numerics_id="engine 1", kv_dtype="bf16",
                                  layout_id="mine", block_tokens=32, block_bytes=737280)
        cached = space.get(tokens, blocks, timeout_ms=200)        # before prefill
        ...                                                       # compute the rest
        space.put(tokens, blocks, first=cached, timeout_ms=1000)  # after it

Whatever goes wrong raises Error, whose `status` says what; the engine then goes on as if nothing
were cached. Without a daemon that is at once.
"""

import ctypes
import ctypes.util
import os

API_VERSION = 1

OK, INVALID_ARGUMENT, UNAVAILABLE, DEADLINE_EXCEEDED = 0, 1, 2, 3
RESOURCE_EXHAUSTED, BUFFER_TOO_SMALL, CORRUPTION, INTERNAL = 4, 5, 6, 7

STORED, PRESENT, NO_ROOM, REFUSED, UNREACHABLE = 0, 1, 2, 3, 4


class Error(Exception):
    """A call that failed; nothing is cached, as far as the caller need know."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _ClientOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("socket_path", ctypes.c_char_p),
        ("client_name", ctypes.c_char_p),
        ("staging_bytes", ctypes.c_uint64),
        ("payload", ctypes.c_uint32),
        ("token_file", ctypes.c_char_p),
    ]


class _SpaceDescriptor(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("model_digest", ctypes.c_uint8 * 32),
        ("numerics_id", ctypes.c_char_p),
        ("kv_dtype", ctypes.c_char_p),
        ("layout_id", ctypes.c_char_p),
        ("block_tokens", ctypes.c_uint32),
        ("block_bytes", ctypes.c_uint64),
        ("tensor_parallel_rank", ctypes.c_uint32),
        ("tensor_parallel_size", ctypes.c_uint32),
        ("adapter", ctypes.c_char_p),
        ("adapter_revision", ctypes.c_char_p),
        ("tenant", ctypes.c_char_p),
        ("label", ctypes.c_char_p),
    ]


class _MatchResult(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("blocks", ctypes.c_size_t),
        ("load_ns", ctypes.c_uint64),
    ]


class _GetOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("prefill_tokens_per_second", ctypes.c_double),
        ("wait_ms", ctypes.c_uint32),
    ]


class _Key(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * 32)]


def _load():
    """libterrace.so: $TERRACE_LIBRARY, else where the system looks."""
    path = os.environ.get("TERRACE_LIBRARY") or ctypes.util.find_library("terrace") or "libterrace.so.1"
    library = ctypes.CDLL(path)
    library.terrace_api_version.restype = ctypes.c_uint32
    if library.terrace_api_version() < API_VERSION:
        raise OSError(f"{path} is older than this module")
    pointer, size, u32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
    library.terrace_last_error.restype = ctypes.c_char_p
    library.terrace_request_budget_ms.restype = u32
    library.terrace_close.restype = library.terrace_close_space.restype = None
    signatures = {
        "terrace_open": [pointer, pointer],
        "terrace_close": [pointer],
        "terrace_wait_connected": [pointer, u32],
        "terrace_request_budget_ms": [pointer],
        "terrace_stats": [pointer, u32, pointer, size, pointer],
        "terrace_open_space": [pointer, pointer, pointer],
        "terrace_close_space": [pointer],
        "terrace_keys": [pointer, pointer, size, pointer, size, pointer],
        "terrace_match": [pointer, pointer, size, u32, pointer],
        "terrace_put": [pointer, pointer, pointer, size, pointer, size, u32, pointer],
        "terrace_get": [pointer, pointer, size, pointer, pointer, u32, pointer],
    }
    for name, arguments in signatures.items():
        getattr(library, name).argtypes = arguments
    return library


_library = None


def _lib():
    global _library
    if _library is None:
        _library = _load()
    return _library


def _check(status):
    if status != OK:
        raise Error(status, _lib().terrace_last_error().decode(errors="replace"))


def _text(text):
    return text.encode() if text else None


def _addresses(blocks, block_bytes, writable):
    """The addresses of buffers, and what keeps them where they are."""
    kept = []
    addresses = (ctypes.c_void_p * len(blocks))()
    for i, block in enumerate(blocks):
        view = memoryview(block).cast("B")
        if view.nbytes != block_bytes:
            raise ValueError(f"block {i} has {view.nbytes} bytes instead of {block_bytes}")
        if view.readonly:
            if writable:
                raise ValueError(f"block {i} cannot be written to")
            view = memoryview(bytearray(view))  # ctypes takes no address of what is read-only
        buffer = (ctypes.c_char * block_bytes).from_buffer(view)
        kept.append(buffer)
        addresses[i] = ctypes.addressof(buffer)
    return addresses, kept


class _Handle:
    """Owns an object of the library until close(), or until it is forgotten."""

    _handle = None  # also where __init__ did not come to its end

    def close(self):
        handle, self._handle = self._handle, None
        if handle:
            self._release(handle)

    def __del__(self):
        try:
            self.close()
        except Exception:  # at the interpreter's end anything may be gone; nobody is told
            pass


class Client(_Handle):
    """A connection to terraced, which is made in the background and comes back by itself."""

    def __init__(self, socket_path=None, name=None, staging_bytes=0, shared_memory=True,
                 token_file=None):
        options = _ClientOptions(
            ctypes.sizeof(_ClientOptions), _text(socket_path), _text(name), staging_bytes,
            0 if shared_memory else 1, _text(token_file))
        handle = ctypes.c_void_p()
        _check(_lib().terrace_open(ctypes.byref(options), ctypes.byref(handle)))
        self._handle = handle
        self._release = _lib().terrace_close

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def wait_connected(self, timeout_ms):
        _check(_lib().terrace_wait_connected(self._handle, timeout_ms))

    @property
    def request_budget_ms(self):
        return _lib().terrace_request_budget_ms(self._handle)

    def stats_json(self, timeout_ms):
        length = ctypes.c_size_t(1 << 16)
        while True:
            text = ctypes.create_string_buffer(length.value + 1)
            status = _lib().terrace_stats(
                self._handle, timeout_ms, text, len(text), ctypes.byref(length))
            if status != BUFFER_TOO_SMALL:
                _check(status)
                return text.value.decode()

    def open_space(self, *, model_digest, numerics_id, kv_dtype, layout_id, block_tokens, block_bytes,
                   tensor_parallel_rank=0, tensor_parallel_size=1, adapter=None,
                   adapter_revision=None, tenant=None, label=None):
        """Everything that makes KV bytes exchangeable; see terrace_space_descriptor.

        model_digest: the 32 bytes of a SHA-256.
        """
        if len(model_digest) != 32:
            raise ValueError(f"model_digest has {len(model_digest)} bytes instead of 32")
        descriptor = _SpaceDescriptor(
            ctypes.sizeof(_SpaceDescriptor), (ctypes.c_uint8 * 32)(*model_digest),
            _text(numerics_id), _text(kv_dtype), _text(layout_id), block_tokens, block_bytes,
            tensor_parallel_rank, tensor_parallel_size, _text(adapter), _text(adapter_revision),
            _text(tenant), _text(label))
        handle = ctypes.c_void_p()
        _check(_lib().terrace_open_space(
            self._handle, ctypes.byref(descriptor), ctypes.byref(handle)))
        return Space(handle, block_tokens, block_bytes)


class Space(_Handle):
    """The blocks of one space. It may outlive its client, and then answers UNAVAILABLE."""

    def __init__(self, handle, block_tokens, block_bytes):
        self._handle = handle
        self.block_tokens = block_tokens
        self.block_bytes = block_bytes
        self._release = _lib().terrace_close_space

    def _keys(self, tokens):
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        count = ctypes.c_size_t()
        keys = (_Key * (len(tokens) // self.block_tokens))()
        _check(_lib().terrace_keys(
            self._handle, ids, len(tokens), keys, len(keys), ctypes.byref(count)))
        return ids, keys

    def match(self, tokens, timeout_ms):
        """How many leading blocks of a prompt are cached."""
        ids = (ctypes.c_int32 * len(tokens))(*tokens)
        result = _MatchResult(ctypes.sizeof(_MatchResult))
        _check(_lib().terrace_match(
            self._handle, ids, len(tokens), timeout_ms, ctypes.byref(result)))
        return result.blocks

    def get(self, tokens, blocks, timeout_ms, prefill_tokens_per_second=0.0, wait_ms=0):
        """Fetches the leading blocks of a prompt that are cached into `blocks`, at most as many.

        Returns how many came; the others are undefined.
        """
        _, keys = self._keys(tokens)
        number = min(len(keys), len(blocks))
        addresses, kept = _addresses(blocks[:number], self.block_bytes, True)
        options = _GetOptions(ctypes.sizeof(_GetOptions), prefill_tokens_per_second, wait_ms)
        count = ctypes.c_size_t()
        _check(_lib().terrace_get(self._handle, keys, number, addresses, ctypes.byref(options),
                                  timeout_ms, ctypes.byref(count)))
        del kept
        return count.value

    def put(self, tokens, blocks, timeout_ms, first=0):
        """Stores the full blocks of a prompt from the `first` on, which blocks[first] holds.

        Returns an outcome for each: STORED, PRESENT, NO_ROOM, REFUSED or UNREACHABLE.
        """
        ids, keys = self._keys(tokens)
        last = min(len(keys), len(blocks))
        if last <= first:
            return []
        addresses, kept = _addresses(blocks[first:last], self.block_bytes, False)
        outcomes = (ctypes.c_uint8 * (last - first))()
        parent = ctypes.byref(keys[first - 1]) if first > 0 else None
        ids_from = ctypes.byref(ids, first * self.block_tokens * ctypes.sizeof(ctypes.c_int32))
        _check(_lib().terrace_put(self._handle, parent, ids_from, (last - first) * self.block_tokens,
                                  addresses, last - first, timeout_ms, outcomes))
        del kept
        return list(outcomes)
