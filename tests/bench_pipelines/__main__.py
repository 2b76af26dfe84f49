"""`make bench-pipelines`: every job beside plain Spark. `BENCH_ARGS="archive --records 1000000"` runs one of
them."""

from __future__ import annotations

import importlib
import sys

JOBS = ("archive", "audit", "replay", "transform")
BY_HAND = ("growth",)
"""Only when it is named: it takes its time."""


def main() -> None:
    arguments = sys.argv[1:]
    chosen = arguments[:1] if arguments and arguments[0] in (*JOBS, *BY_HAND) else []
    for job in chosen or JOBS:
        print(f"== {job}", flush=True)
        importlib.import_module(f"tests.bench_pipelines.{job}").main(arguments[len(chosen) :])


if __name__ == "__main__":
    main()
