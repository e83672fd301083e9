#!/usr/bin/env python3
"""A mixed load on a server at 127.0.0.1:PORT: whole answers and streams of prompts that share
prefixes, several choices, sampling, salts, broken requests, and clients that hang up at random.

usage: serve_load.py PORT [--seconds S | --requests N] [--clients N] [--seed N] [--pid PID]

What is asked greedily twice must be answered with the same ids, every answer must be complete, and at the
end nothing may be held. With --pid the server's memory is watched, too. Prints one JSON line; 0 if all is
well.
"""

import argparse
import collections
import http.client
import json
import random
import re
import sys
import threading
import time

MAX_ID = 300  # of any vocabulary
GROWTH_LIMIT_BYTES = 256 << 20  # of the server's memory, after the first tenth of the load


class Load:
    def __init__(self, options):
        self.options = options
        self.lock = threading.Lock()
        self.answers = {}
        self.counts = collections.Counter()
        self.problems = []
        self.left = options.requests
        self.end = time.monotonic() + options.seconds if options.requests is None else None

    def goes_on(self):
        with self.lock:
            if self.problems:
                return False
            if self.end is not None:
                return time.monotonic() < self.end
            self.left -= 1
            return self.left >= 0

    def problem(self, what):
        with self.lock:
            self.problems.append(str(what)[:500])

    def check_same(self, key, ids):
        with self.lock:
            if self.answers.setdefault(key, ids) != ids:
                self.problems.append(f"other ids for the same prompt: {key}")


def prompt_of(prefix, prefix_tokens, own, own_tokens):
    ids = random.Random(f"prefix {prefix}")
    mine = random.Random(f"own {own}")
    return [ids.randrange(MAX_ID) for _ in range(prefix_tokens)] + [
        mine.randrange(MAX_ID) for _ in range(own_tokens)
    ]


def post(load, body, path="/v1/completions"):
    connection = http.client.HTTPConnection("127.0.0.1", load.options.port, timeout=300)
    text = body if isinstance(body, str) else json.dumps(body)
    connection.request("POST", path, text, {"Content-Type": "application/json"})
    return connection


def stream_ids(response):
    ids, done = [], False
    for line in response:
        if line.startswith(b"data: [DONE]"):
            done = True
        elif line.startswith(b"data: "):
            for choice in json.loads(line[6:])["choices"]:
                ids += choice["token_ids"]
    return ids, done


def ask(load, rng):
    prefix, own = rng.randrange(6), rng.randrange(12)
    prefix_tokens, own_tokens = 40 * prefix, 1 + 13 * own
    tokens = rng.choice([1, 8, 30, 60])
    body = {
        "prompt": prompt_of(prefix, prefix_tokens, own, own_tokens),
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
        "priority": rng.randrange(2),
        "stream": rng.random() < 0.5,
        "cache_salt": rng.choice(["", "", "a", "b"]),
        "store": rng.random() < 0.9,
    }
    key = (prefix, own, tokens)
    kind = rng.random()
    if kind < 0.1:
        body["temperature"], body["n"], key = 1, 3, None
    if kind > 0.95:
        connection = post(load, rng.choice(["{", "[]", '{"prompt": 1}', '{"prompt": "a", "n": -1}']))
        status = connection.getresponse().status
        load.counts["refused"] += 1
        if status != 400:
            load.problem(f"{status} for a broken request")
        connection.close()
        return
    if 0.7 < kind <= 0.95:
        body["max_tokens"] = 400
        connection = post(load, body)
        if body["stream"]:
            connection.getresponse().read(rng.randrange(2000))
        else:
            time.sleep(rng.random() * 0.05)
        # Without the rest: the server has to notice.
        connection.sock and connection.sock.close()
        connection.close()
        load.counts["hung_up"] += 1
        return
    connection = post(load, body)
    response = connection.getresponse()
    if response.status == 429:
        response.read()
        load.counts["busy"] += 1
        time.sleep(0.05)
    elif response.status != 200:
        load.problem(f"{response.status}: {response.read()}")
    elif body["stream"]:
        ids, done = stream_ids(response)
        if not done or len(ids) != tokens * body.get("n", 1):
            load.problem(f"a stream that is not complete: {len(ids)} of {tokens}")
        if key:
            load.check_same(key, ids)
        load.counts["streamed"] += 1
    else:
        choices = json.loads(response.read())["choices"]
        if any(len(choice["token_ids"]) != tokens for choice in choices):
            load.problem("an answer that is not complete")
        if key:
            load.check_same(key, choices[0]["token_ids"])
        load.counts["whole"] += 1
    connection.close()


def run_client(load, number):
    rng = random.Random(f"{load.options.seed} {number}")
    while load.goes_on():
        try:
            ask(load, rng)
        except Exception as error:  # the server went away, say
            load.problem(repr(error))


def metrics(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return {
        name: float(value) for name, value in re.findall(r"^(terrace_\S+) (\S+)$", text, re.MULTILINE)
    }


def wait_until_idle(load):
    names = [f'terrace_worker_sequences{{state="{s}"}}' for s in ("queued", "preparing", "running")]
    names += ["terrace_worker_open_requests", "terrace_worker_private_kv_bytes"]
    end = time.monotonic() + 60
    while True:
        now = metrics(load.options.port)
        held = {name: now[name] for name in names if now[name] != 0}
        if not held:
            return now
        if time.monotonic() > end:
            load.problem(f"still held: {held}")
            return now
        time.sleep(0.05)


def resident_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pid", type=int)
    load = Load(parser.parse_args())
    began = time.monotonic()
    clients = [
        threading.Thread(target=run_client, args=(load, i)) for i in range(load.options.clients)
    ]
    for client in clients:
        client.start()
    first_bytes = None
    while any(client.is_alive() for client in clients):
        time.sleep(0.1)
        if load.options.pid and first_bytes is None:
            if load.end and time.monotonic() - began > load.options.seconds / 10:
                first_bytes = resident_bytes(load.options.pid)
    seconds = time.monotonic() - began
    last = wait_until_idle(load)
    growth = None
    if first_bytes is not None:
        growth = resident_bytes(load.options.pid) - first_bytes
        if growth > GROWTH_LIMIT_BYTES:
            load.problem(f"the server grew by {growth} bytes")
    print(
        json.dumps(
            {
                "seconds": round(seconds, 1),
                **load.counts,
                "distinct_answers": len(load.answers),
                "cached_tokens": last['terrace_worker_prompt_tokens_total{source="cached"}'],
                "computed_tokens": last['terrace_worker_prompt_tokens_total{source="computed"}'],
                "preemptions": last["terrace_worker_preemptions_total"],
                "growth_bytes": growth,
                "problems": load.problems,
            }
        )
    )
    return 1 if load.problems else 0


if __name__ == "__main__":
    sys.exit(main())
