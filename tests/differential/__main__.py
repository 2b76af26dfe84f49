"""`python -m tests.differential [--only TEXT]`: prints where we and Apache Kafka answer differently."""

from __future__ import annotations

import argparse
import pprint
import sys
import textwrap
import time
from collections import Counter
from contextlib import ExitStack

from tests.differential.allowed import ALLOWED, Allowed
from tests.differential.case import Case, runs
from tests.differential.normalise import normalise
from tests.differential.not_yet import NOT_YET, NotYet, not_yet
from tests.differential.runner import Pair, record, run
from tests.differential.servers import kafka_bootstrap, our_bootstrap
from tests.differential.side import Server


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose 'file.case-vN' contains TEXT")
    parser.add_argument(
        "--kafka", metavar="HOST:PORT", help="a running Apache Kafka 4.3.1 (default: start one)"
    )
    parser.add_argument("--ours", metavar="HOST:PORT", help="a running server of ours (default: start one)")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument(
        "--show", action="store_true", help="print what Apache Kafka answers, and compare nothing"
    )
    parser.add_argument(
        "--allowed", action="store_true", help="print the allowed differences as they occur, too"
    )
    return parser.parse_args()


def unique_run() -> str:
    """The beginning of this run's topic names: the servers may have seen others."""
    return f"d{time.time_ns() // 1_000_000:x}"


def show(server: Server, chosen: list[tuple[Case, int]]) -> int:
    """Prints Kafka's answers as they are compared: what to aim at."""
    for case, version in chosen:
        for exchange in record(case, version, server):
            print(f"{case.name}-v{version} {exchange.label}:")
            print(
                textwrap.indent(
                    pprint.pformat(normalise(exchange, server), sort_dicts=False, width=160), "    "
                )
            )
    return 0


def main() -> int:
    args = arguments()
    chosen = list(runs(args.only))
    if args.list:
        for case, version in chosen:
            print(f"{case.name}-v{version}{' (not yet)' if not_yet(case) else ''}")
        return 0
    used: Counter[Allowed] = Counter()
    awaited: Counter[NotYet] = Counter()
    failed = exchanges = 0
    with ExitStack() as stack:
        kafka = args.kafka or stack.enter_context(kafka_bootstrap())
        if args.show:
            return show(Server.reach("kafka", kafka, unique_run()), chosen)
        ours = args.ours or stack.enter_context(our_bootstrap())
        pair = Pair.reach(kafka, ours, unique_run())
        for case, version in chosen:
            waits = not_yet(case)
            try:
                outcome = run(pair, case, version)
            except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
                failed += not waits
                awaited.update([waits] if waits else [])
                word = "NOT YET" if waits else "BROKEN"
                print(f"{word} {case.name}-v{version}: {type(error).__name__}: {error}")
                continue
            exchanges += outcome.exchanges
            failed += bool(outcome.found) and not waits
            awaited.update([waits] if waits and outcome.found else [])
            used.update(reason for _, reason in outcome.allowed)
            for difference in outcome.found:
                print(f"{'not yet: ' if waits else ''}{difference}")
            for difference, reason in outcome.allowed if args.allowed else ():
                print(f"allowed: {difference}\n         because: {reason.reason}")
    print(f"{len(chosen)} runs, {exchanges} answers compared, {failed} runs differ")
    for entry, count in awaited.items():
        print(f"not yet: {count} runs of {entry.where} differ ({entry.reason})")
    for entry in NOT_YET if not args.only else ():
        if not awaited[entry]:
            print(f"not needed any more: {entry.where} in NOT_YET")
    for known in ALLOWED if not args.only else ():
        if not used[known]:
            print(f"never needed: {known.where} ({known.reason})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
