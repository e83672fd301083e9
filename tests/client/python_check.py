"""python_check.py SOCKET: client/python/terrace.py against a real daemon."""
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../client/python"))
import terrace  # noqa: E402

BLOCK = dict(block_tokens=8, block_bytes=4096)
PATIENCE_MS = 60000


def walk(client, first_token):
    client.wait_connected(PATIENCE_MS)
    space = client.open_space(model_digest=bytes(32), numerics_id="check", kv_dtype="u8",
                              layout_id="check", **BLOCK)
    tokens = list(range(first_token, first_token + 8 * 5 + 3))
    blocks = [bytearray([i + 1]) * 4096 for i in range(5)]
    back = [bytearray(4096) for _ in range(5)]
    assert space.get(tokens, back, PATIENCE_MS) == 0
    assert space.put(tokens[:8], [bytes(blocks[0])], PATIENCE_MS) == [terrace.STORED]
    assert space.put(tokens, blocks, PATIENCE_MS, first=1) == [terrace.STORED] * 4
    assert space.put(tokens, blocks, PATIENCE_MS) == [terrace.PRESENT] * 5
    assert space.match(tokens, PATIENCE_MS) == 5
    assert space.get(tokens, back, PATIENCE_MS) == 5
    assert back == blocks
    assert json.loads(client.stats_json(PATIENCE_MS))["leases"] == 0
    space.close()


with terrace.Client(sys.argv[1] + ".absent") as absent:
    nowhere = absent.open_space(model_digest=bytes(32), numerics_id="check", kv_dtype="u8",
                                layout_id="check", **BLOCK)
    try:
        nowhere.match([1] * 8, PATIENCE_MS)
        raise AssertionError("there is no daemon")
    except terrace.Error as error:
        assert error.status == terrace.UNAVAILABLE, error
    nowhere.close()
for wrong in (b"", bytes(31), bytes(33)):
    with terrace.Client(sys.argv[1]) as client:
        try:
            client.open_space(model_digest=wrong, numerics_id="check", kv_dtype="u8",
                              layout_id="check", **BLOCK)
            raise AssertionError("a digest of another length")
        except ValueError:
            pass
# What was never made, or is closed already, is forgotten in silence.
unraisable = []
sys.unraisablehook = unraisable.append
terrace.Client.__new__(terrace.Client).__del__()
client = terrace.Client(sys.argv[1])
client.close()
client.close()
del client
# What is forgotten lets go of its session.
forgotten = terrace.Client(sys.argv[1])
forgotten.wait_connected(PATIENCE_MS)
with terrace.Client(sys.argv[1]) as client:
    client.wait_connected(PATIENCE_MS)
    assert json.loads(client.stats_json(PATIENCE_MS))["sessions"] == 2
    del forgotten
    while json.loads(client.stats_json(PATIENCE_MS))["sessions"] != 1:
        pass
assert not unraisable, unraisable
for number, shared in enumerate([True, False]):
    with terrace.Client(sys.argv[1], name="check", shared_memory=shared) as client:
        walk(client, 1000 * number)
