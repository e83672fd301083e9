"""Compares the answers of quickstart.sh and prints them: a table, the texts, one JSON line last.

usage: quickstart_report.py DIRECTORY COLD_QUESTION DEVICE_QUESTION DISK_QUESTION

DIRECTORY holds what `terrace-worker generate --json` printed: {cold,device,disk}.json and the same
names with _uncached. Exits with 1 if an answer differs from the one without a cache, or if the
prefix did not come from the tier that it should have come from.
"""

import json
import pathlib
import sys

RUNS = ("cold", "device", "disk")


def main(directory: str, *questions: str) -> int:
    def load(name: str) -> dict:
        return json.loads((pathlib.Path(directory) / f"{name}.json").read_text(encoding="utf-8"))

    answers = {run: load(run) for run in RUNS}
    uncached = {run: load(f"{run}_uncached") for run in RUNS}
    same = {
        run: answers[run]["token_ids"] == uncached[run]["token_ids"]
        and answers[run]["text"] == uncached[run]["text"]
        for run in RUNS
    }

    cold_ms = answers["cold"]["ttft_ms"]
    print()
    print(f"{'run':8}{'prompt':>8}{'cached':>8}  {'from':14}{'first token':>12}{'speed-up':>10}")
    for run in RUNS:
        answer = answers[run]
        tiers = ", ".join(tier for tier, n in answer["cached_by_tier"].items() if n > 0) or "-"
        speed_up = "" if run == "cold" else f"{cold_ms / answer['ttft_ms']:.1f}x"
        print(
            f"{run:8}{answer['prompt_tokens']:>8}{answer['cached_tokens']:>8}  {tiers:14}"
            f"{answer['ttft_ms']:>9.1f} ms{speed_up:>10}"
        )
    for run, question in zip(RUNS, questions):
        verdict = "identical to" if same[run] else "DIFFERENT from"
        print(f"\n[{run}] {question}\n  {answers[run]['text'].strip()}")
        print(f"  ({verdict} the answer without a cache)")
        if not same[run]:
            print(f"  without a cache: {uncached[run]['text'].strip()}")

    from_tier = {run: answers[run]["cached_by_tier"].get(run, 0) for run in ("device", "disk")}
    for tier, tokens in from_tier.items():
        if tokens == 0:
            print(f"\nNothing came from the {tier} tier.")
    print()
    print(
        json.dumps(
            {
                "bench": "quickstart",
                "prompt_tokens": answers["cold"]["prompt_tokens"],
                "cold_ttft_ms": round(cold_ms, 2),
                "device_ttft_ms": round(answers["device"]["ttft_ms"], 2),
                "disk_ttft_ms": round(answers["disk"]["ttft_ms"], 2),
                "device_cached_tokens": from_tier["device"],
                "disk_cached_tokens": from_tier["disk"],
                "answers_equal": all(same.values()),
            },
            separators=(",", ":"),
        )
    )
    return 0 if all(same.values()) and all(from_tier.values()) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
