"""The `foreachBatch` of docs/spark.md, killed at random (`make kills-spark SECONDS=120`).

Transactions are written; a program takes what they have committed into another topic, and gets a SIGKILL
after a while, again and again, and so do gateways, each in its turn. At the end all is compared. Exits 1 when
something differs.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.peers.gateways import Gateways
from tests.spark.pumping import Pumped

TRANSACTIONS = 24
"""That are written for each life of the program."""
LIFE_SECONDS = (0.0, 3.0)
"""So long after its first micro-batch, at random, a program is killed."""


def main() -> int:
    arguments = _arguments()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="spark-kills-", ignore_cleanup_errors=True) as name:
        with Gateways(arguments.gateways) as cluster:
            pumped = Pumped(cluster, Path(name))
            try:
                with cluster.killed_in_turn(arguments.kill_every):
                    lives = _lives(pumped, arguments.seconds, chance)
                    ended = pumped.run_to_the_end()
                committed, written = pumped.compare(), pumped.written()
            except AssertionError as error:
                print(f"after {cluster.kills} kills of gateways: {error}\n{cluster.tail()}", flush=True)
                return 1
        print(
            f"{cluster.kills} gateways and {lives} programs got a SIGKILL, and the last program was started "
            f"{ended} times again: of {written} records that were written {committed} are committed, each "
            "once, in order",
            flush=True,
        )
    return 0


def _lives(pumped: Pumped, seconds: float, chance: random.Random) -> int:
    """How often the program was killed in that time; it may also have ended by itself."""
    end = time.monotonic() + seconds
    killed = 0
    while time.monotonic() < end:
        pumped.fill(TRANSACTIONS)
        with pumped.program() as program:
            pumped.wait_for_a_batch(program)
            killed += program.killed_after(chance.uniform(*LIFE_SECONDS))
    return killed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="how long programs are killed")
    parser.add_argument(
        "--kill-every",
        type=float,
        metavar="SECONDS",
        default=5.0,
        help="how long after the one before serves again the next gateway is killed",
    )
    parser.add_argument("--gateways", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the times at which programs are killed")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
