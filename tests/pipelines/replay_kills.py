"""By hand: `python -m tests.pipelines.replay_kills --count 50 --seed 1`. The replay job under SIGKILLs at
random times.

One archive is replayed into one topic after the other. Each call is a process that is killed after a random
time (one time in four the server is killed, too); the same command goes on until one ends by itself. Then the
topic must hold the archived records, each once and in order, by plain Fetch requests.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.clients.sample import small_records
from tests.clients.stored import create_topic, put
from tests.peers.standalone import Standalone
from tests.pipelines.processes import Pipeline, run
from tests.pipelines.replaying import assert_replayed

PARTITIONS = 3
RECORDS = 20_000
SHORTEST_SECONDS, LONGEST_SECONDS = 6.0, 16.0
IN_TURNS = 4
"""Kills of one replay, before it is left alone."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    dice = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="replay-kills-"))
    killed = topics = 0
    with Standalone(directory=folder / "server") as server:
        source = create_topic(server.bootstrap, "source", PARTITIONS)
        for partition in range(PARTITIONS):
            put(
                server.bootstrap,
                source,
                small_records(RECORDS, str(partition)),
                partition=partition,
                per_batch=500,
            )
        archive = str(folder / "archive")
        run(
            folder / "run",
            "archive",
            "--bootstrap",
            server.bootstrap,
            "--topics",
            source,
            "--to",
            archive,
            "--once",
        )
        while killed < given.count:
            topics += 1
            name = f"r{topics}"
            call = [
                *("replay", archive, "--topics", source, "--to", f"target-{name}", "--id", name, "--create"),
                *("--bootstrap", server.bootstrap, "--delivery-timeout", "4", "--rate", "10000"),
            ]
            for _ in range(min(IN_TURNS, given.count - killed)):
                after = dice.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)
                with Pipeline(folder / "run", *call) as job:
                    time.sleep(after)
                    if dice.random() < 1 / 4:
                        server.restart()
                        time.sleep(dice.uniform(0.0, 2.0))
                    state = "running" if job.poll() is None else "ended"
                killed += 1
                print(f"{killed}: killed after {after:.1f} s ({state})", flush=True)
            run(folder / "run", *call)
            assert_replayed(server.bootstrap, name, source, f"target-{name}", PARTITIONS)
            print(f"{killed} kills, {topics} topics: equal", flush=True)


if __name__ == "__main__":
    main()
