"""`make sim SECONDS=n SEED=s`: schedules of simulated clusters for some seconds, the first of seed s."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.sim import cluster
from tests.sim.bugs import BUGS, planted
from tests.sim.plan import make_plan
from tests.sim.shrink import describe, shrink


def main() -> int:
    """The exit code: 1 if a schedule failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long schedules are run")
    parser.add_argument("--seed", type=int, default=0, help="the first schedule's seed; the next ones follow")
    parser.add_argument("--schedules", type=int, help="run so many, however long it takes")
    parser.add_argument("--length", type=float, default=5.0, help="seconds of work and faults in a schedule")
    parser.add_argument("--stores", type=int, help="clusters of so many stores (else 1 to 5)")
    parser.add_argument("--bug", choices=sorted(BUGS), help="plant this bug: it must be found")
    parser.add_argument("--go-on", action="store_true", help="do not stop at the first failure")
    parser.add_argument(
        "--traces", action="store_true", help="tell of each schedule what two runs of it share"
    )
    parser.add_argument("--whole", action="store_true", help="show a failing schedule as it is, not shrunk")
    arguments = parser.parse_args()
    with planted(arguments.bug):
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    reached: Counter[str] = Counter()
    started, seed, failed = time.monotonic(), arguments.seed, 0
    while True:
        plan = make_plan(seed, stores=arguments.stores, seconds=arguments.length)
        outcome = cluster.run(plan)
        if arguments.traces:
            print(f"seed {seed}: {outcome.trace}", flush=True)
        seed += 1
        reached += outcome.world.reached
        if outcome.failure is not None:
            failed += 1
            _report(outcome, whole=arguments.whole)
            if not arguments.go_on:
                break
        took = time.monotonic() - started
        if (
            (seed - arguments.seed >= arguments.schedules)
            if arguments.schedules
            else took > arguments.seconds
        ):
            break
    took = time.monotonic() - started
    count = seed - arguments.seed
    print(f"{count} schedules in {took:.1f} s ({count / took:.1f} per second), {failed} failed; reached:")
    for kind, times in sorted(reached.items()):
        print(f"  {times:8d}  {kind}")
    return 1 if failed else 0


def _report(outcome: cluster.Outcome, *, whole: bool) -> None:
    print(f"seed {outcome.plan.seed} failed: {outcome.text}", flush=True)
    if not whole:
        print("the smallest schedule that fails:")
        print(describe(shrink(outcome.plan)), flush=True)
    else:
        print(describe(outcome), flush=True)


if __name__ == "__main__":
    sys.exit(main())
