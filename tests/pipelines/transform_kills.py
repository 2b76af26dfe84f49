"""SIGKILL to a transform and its JVM at random moments, again and again; then the target must be as if none
had been.

    python -m tests.pipelines.transform_kills --count 50 --seed 0

Each life of the program ends in its start, or some batches later and then in the midst of one; records keep
coming.
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
STARTING_SECONDS = (1.0, 15.0)
"""After which every fourth life dies: in its start, wherever that is by then."""
BATCHES = 3
"""The others die so many batches later at most, and then after a part of a batch."""
PART_SECONDS = 4.0
LIFE_SECONDS = 300.0
LAST_LIFE_SECONDS = 1800.0


def command(bootstrap: str, source: str, target: str, checkpoint: Path) -> list[str]:
    arguments = [bootstrap, FUNCTION, source, target, str(checkpoint)]
    return [sys.executable, "-m", "tests.pipelines.transform_program", *arguments]


def wait_for_end(program: Program, seconds: float) -> int | None:
    """The program's exit code; None where it still runs after so long."""
    deadline = time.monotonic() + seconds
    while (code := program.returncode) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return code


def live(program: Program, checkpoint: Path, chance: random.Random) -> None:
    """Let it run until the moment at which it dies."""
    if chance.random() < 0.25:
        wait_for_end(program, chance.uniform(*STARTING_SECONDS))
        return
    enough = committed(checkpoint) + chance.randrange(BATCHES)
    deadline = time.monotonic() + LIFE_SECONDS
    while committed(checkpoint) < enough and program.returncode is None and time.monotonic() < deadline:
        time.sleep(0.05)
    wait_for_end(program, chance.uniform(0, PART_SECONDS))


def committed(checkpoint: Path) -> int:
    """Batches that Spark holds for done."""
    folder = checkpoint / "commits"
    return sum(file.name.isdigit() for file in folder.iterdir()) if folder.exists() else 0


def run(bootstrap: str, folder: Path, count: int, seed: int) -> str:
    """Kill so often; what is wrong in the end, empty when all is right."""
    chance = random.Random(seed)
    source = create_topic(bootstrap, f"kills-source-{seed}", 1)
    target = create_topic(bootstrap, f"kills-target-{seed}", PARTITIONS)
    checkpoint = folder / "checkpoint"
    start = command(bootstrap, source, target, checkpoint)
    records = keyed_records((count + 4) * PER_BATCH)
    given = 3 * PER_BATCH
    put(bootstrap, source, records[:given])
    for kill in range(count):
        put(bootstrap, source, records[given : given + PER_BATCH])
        given += PER_BATCH
        before = committed(checkpoint)
        with Program(start, folder / f"{kill}.log") as program:
            live(program, checkpoint, chance)
            code, text = program.returncode, program.text
        print(f"life {kill}: {committed(checkpoint) - before} batches, {'killed' if code is None else code}")
        if code not in {None, 0}:
            return f"life {kill} ended with {code}:\n{text[-3000:]}"
    put(bootstrap, source, records[given:])
    with Program(start, folder / "last.log") as program:
        code = wait_for_end(program, LAST_LIFE_SECONDS)
        if code != 0:
            return f"the last life ended with {code}:\n{program.text[-3000:]}"
    found, wanted = numbers_in(bootstrap, target, PARTITIONS), numbers_of(records)
    return "\n".join(
        f"{key!r}: {found.get(key)}, not 1 to {len(wanted.get(key, []))}"
        for key in wanted.keys() | found.keys()
        if found.get(key) != wanted.get(key)
    )


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
