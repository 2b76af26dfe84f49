"""SIGKILL to a transform and its JVM at random moments, again and again; then the target must be as if none
had been.

    python -m tests.pipelines.transform_kills --count 50 --seed 0

Each life of the program gets some seconds; records keep coming while it lives and while it is dead.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.clients.stored import create_topic, put
from tests.differential.servers import our_server
from tests.pipelines.transforming import PER_BATCH, keyed_records, numbers_in, numbers_of
from tests.spark.program import Program

FUNCTION = "numbers_per_key"
PARTITIONS = 3
SECONDS = (3.0, 30.0)
"""How long a life may be. A start takes some six of them, on a machine that does nothing else."""


def command(bootstrap: str, source: str, target: str, checkpoint: Path) -> list[str]:
    arguments = [bootstrap, FUNCTION, source, target, str(checkpoint)]
    return [sys.executable, "-m", "tests.pipelines.transform_program", *arguments]


def wait_for_end(program: Program, seconds: float) -> int | None:
    """The program's exit code; None where it still runs after so long."""
    deadline = time.monotonic() + seconds
    while (code := program.returncode) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return code


def run(bootstrap: str, folder: Path, count: int, seed: int) -> str:
    """Kill so often; what is wrong in the end, empty when all is right."""
    chance = random.Random(seed)
    source = create_topic(bootstrap, f"kills-source-{seed}", 1)
    target = create_topic(bootstrap, f"kills-target-{seed}", PARTITIONS)
    start = command(bootstrap, source, target, folder / "checkpoint")
    records = keyed_records((count + 1) * PER_BATCH * 2)
    given = 0
    for kill in range(count):
        put(bootstrap, source, records[given : given + PER_BATCH])
        given += PER_BATCH
        seconds = chance.uniform(*SECONDS)
        with Program(start, folder / f"{kill}.log") as program:
            code = wait_for_end(program, seconds)
            text = program.text
        print(f"kill {kill}: after {seconds:.1f} s, {'it had ended' if code is not None else 'killed'}")
        if code not in {None, 0}:
            return f"life {kill} ended with {code}:\n{text[-3000:]}"
    put(bootstrap, source, records[given:])
    with Program(start, folder / "last.log") as program:
        code = wait_for_end(program, 600)
        if code != 0:
            return f"the last life ended with {code}:\n{program.text[-3000:]}"
    found, wanted = numbers_in(bootstrap, target, PARTITIONS), numbers_of(records)
    wrong = [
        f"{key!r}: {found.get(key)}, not 1 to {len(wanted[key])}"
        for key in wanted
        if found.get(key) != wanted[key]
    ]
    return "\n".join(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="transform-kills-") as folder, our_server() as server:
        wrong = run(server.bootstrap, Path(folder), options.count, options.seed)
    print(wrong or f"{options.count} kills, seed {options.seed}: each record once, each count exact")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
