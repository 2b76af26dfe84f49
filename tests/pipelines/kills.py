"""By hand: `python -m tests.pipelines.kills --count 50 --seed 1`. The archive job under SIGKILLs at random
times.

Each round writes records, starts the job as a process, kills it (one time in three the server, too) after a
random time, and goes on. At the end, and every tenth kill, the archive read by deltalake must equal the
topic, read by plain Fetch requests.
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
from tests.pipelines.dumps import archive_rows, topic_rows
from tests.pipelines.processes import Pipeline, run

PARTITIONS = 3
LONGEST_SECONDS = 14.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    dice = random.Random(given.seed)
    folder = Path(tempfile.mkdtemp(prefix="pipeline-kills-"))
    with Standalone(directory=folder / "server") as server:
        topic = create_topic(server.bootstrap, "t", PARTITIONS)
        call = [
            *("--bootstrap", server.bootstrap, "--topics", topic, "--to", str(folder / "archive")),
            *("--once", "--max-batch-bytes", "200KB", "--compact-after", "0d"),
        ]
        for kill in range(1, given.count + 1):
            for partition in range(PARTITIONS):
                records = small_records(dice.randrange(4000), f"{kill}/{partition}")
                put(server.bootstrap, topic, records, partition=partition, per_batch=100)
            after = dice.uniform(3.0, LONGEST_SECONDS)
            with Pipeline(folder / "run", "archive", *call) as job:
                time.sleep(after)
                if dice.random() < 1 / 3:
                    server.restart()
                    time.sleep(dice.uniform(0.0, 2.0))
                state = "running" if job.poll() is None else "ended"
            print(f"{kill}: killed after {after:.1f} s ({state})", flush=True)
            if kill % 10 == 0 or kill == given.count:
                run(folder / "run", "archive", *call)
                expected = topic_rows(server.bootstrap, topic, PARTITIONS)
                found = archive_rows(folder / "archive")
                assert found == expected, f"{len(found)} rows, {len(expected)} records; see {folder}"
                print(f"{kill} kills, {len(expected)} records: equal", flush=True)


if __name__ == "__main__":
    main()
