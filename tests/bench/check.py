"""The working tree beside a commit, briefly: `python -m tests.bench.check COMMIT`, by make: `bench-check`.

Both are `dafka standalone` under the same Python and packages, in turn, in interleaved rounds. Processor time
comes first: other work on the machine hardly touches it. Below 1 the working tree needs less.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.__main__ import add_amounts, end, facts, selected
from tests.bench.facts import ROOT
from tests.bench.runner import Plan, run
from tests.bench.servers import OUR_DURABILITY, Durability, Kind, dafka, of_checkout

FIGURES = (
    "produce-100-p1-x1-plain",
    "produce-1k-p1-x1-plain",
    "produce-1k-p16-x1-plain",
    "consume-1k-p1",
    "consume-1k-p16",
    "latency-native",
    "metadata",
    "small",
    "commits",
)
"""What is measured where nothing is named: a few minutes."""
WARM_UP_SECONDS = 2.0
"""There is no JVM here."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.check", description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("figures", nargs="*", help=f"names or beginnings; by default {' '.join(FIGURES)}")
    parser.add_argument("--rounds", type=int, default=5)
    add_amounts(parser, scale=0.25, warm_up=WARM_UP_SECONDS)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    figures = selected(arguments.figures or list(FIGURES))
    with checked_out(arguments.commit) as folder:
        kinds = {
            "commit": Kind(f"commit {arguments.commit}", of_checkout(folder), OUR_DURABILITY),
            "tree": Kind("working tree", dafka, OUR_DURABILITY),
        }
        plan = Plan(
            kinds=kinds,
            titles={name: kind.title for name, kind in kinds.items()},
            figures=figures,
            durabilities=[Durability(name) for name in arguments.durability],
            rounds=arguments.rounds,
            scale=arguments.scale,
            warm_up_seconds=arguments.warm_up,
            json=arguments.json,
        )
        results, failures = run(plan)
    print(f"\n{facts(plan)}\n\n{results.table(processor_first=True)}")
    end(failures)


@contextmanager
def checked_out(commit: str) -> Iterator[Path]:
    """The files of a commit in a folder of their own, as long as the block runs."""
    folder = Path(tempfile.mkdtemp(prefix="bench-check-"))
    try:
        archive = subprocess.Popen(["git", "-C", str(ROOT), "archive", commit], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", str(folder)], stdin=archive.stdout, check=True)
        if archive.wait() != 0:
            raise SystemExit(f"there is no commit {commit}")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
