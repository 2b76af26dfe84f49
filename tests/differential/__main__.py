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
        print(*(f"{case.name}-v{version}" for case, version in chosen), sep="\n")
        return 0
    used: Counter[Allowed] = Counter()
    failed = exchanges = 0
    with ExitStack() as stack:
        kafka = args.kafka or stack.enter_context(kafka_bootstrap())
        if args.show:
            return show(Server.reach("kafka", kafka, unique_run()), chosen)
        ours = args.ours or stack.enter_context(our_bootstrap())
        pair = Pair.reach(kafka, ours, unique_run())
        for case, version in chosen:
            try:
                outcome = run(pair, case, version)
            except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
                failed += 1
                print(f"BROKEN {case.name}-v{version}: {type(error).__name__}: {error}")
                continue
            exchanges += outcome.exchanges
            failed += bool(outcome.found)
            used.update(reason for _, reason in outcome.allowed)
            for difference in outcome.found:
                print(difference)
            for difference, reason in outcome.allowed if args.allowed else ():
                print(f"allowed: {difference}\n         because: {reason.reason}")
    print(f"{len(chosen)} runs, {exchanges} answers compared, {failed} runs differ")
    for entry in ALLOWED if not args.only else ():
        if not used[entry]:
            print(f"never needed: {entry.where} ({entry.reason})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
