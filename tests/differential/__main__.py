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
from tests.differential.runner import Pair, reach_secured, record, run
from tests.differential.servers import (
    AS_THE_PEER,
    kafka_bootstrap,
    our_bootstrap,
    our_secured,
    secured_kafka,
)
from tests.differential.side import Server


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose 'file.case-vN' contains TEXT")
    parser.add_argument(
        "--kafka", metavar="HOST:PORT", help="a running Apache Kafka 4.3.1 (default: start one)"
    )
    parser.add_argument("--ours", metavar="HOST:PORT", help="a running server of ours (default: start one)")
    parser.add_argument("--long", action="store_true", help="the cases that take seconds each, too")
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


def show(server: Server, chosen: list[tuple[Case, int]]) -> None:
    """Prints Kafka's answers as they are compared: what to aim at."""
    for case, version in chosen:
        for exchange in record(case, version, server):
            print(f"{case.name}-v{version} {exchange.label}:")
            print(
                textwrap.indent(
                    pprint.pformat(normalise(exchange, server), sort_dicts=False, width=160), "    "
                )
            )


class Tally:
    """What the runs came to so far; each difference is printed as it is found."""

    def __init__(self, *, show_allowed: bool) -> None:
        self._show_allowed = show_allowed
        self._used: Counter[Allowed] = Counter()
        self._awaited: Counter[NotYet] = Counter()
        self._runs = self._exchanges = 0
        self.failed = 0

    def take_all(self, pair: Pair, chosen: list[tuple[Case, int]]) -> None:
        """As `take`, one after the other."""
        for case, version in chosen:
            self.take(pair, case, version)

    def take(self, pair: Pair, case: Case, version: int) -> None:
        """Runs one case, and counts it."""
        self._runs += 1
        waits = not_yet(case)
        try:
            outcome = run(pair, case, version)
        except Exception as error:  # noqa: BLE001 - one broken case must not hide the others
            word = "NOT YET" if waits else "BROKEN"
            print(f"{word} {case.name}-v{version}: {type(error).__name__}: {error}")
            self._count(differs=True, waits=waits)
            return
        self._exchanges += outcome.exchanges
        self._used.update(reason for _, reason in outcome.allowed)
        for difference in outcome.found:
            print(f"{'not yet: ' if waits else ''}{difference}")
        for difference, reason in outcome.allowed if self._show_allowed else ():
            print(f"allowed: {difference}\n         because: {reason.reason}")
        self._count(differs=bool(outcome.found), waits=waits)

    def _count(self, *, differs: bool, waits: NotYet | None) -> None:
        if waits:
            self._awaited[waits] += differs
        else:
            self.failed += differs

    def conclude(self, *, whole: bool) -> None:
        """Prints the sums; after a whole run also which entries of the two lists nothing needs."""
        print(f"{self._runs} runs, {self._exchanges} answers compared, {self.failed} runs differ")
        for entry, count in self._awaited.items():
            print(f"not yet: {count} runs of {entry.where} differ ({entry.reason})")
        if not whole:
            return
        for entry in NOT_YET:
            if not self._awaited[entry]:
                print(f"nothing waits any more for: {entry.where} ({entry.reason})")
        for known in ALLOWED:
            if not self._used[known]:
                print(f"never needed: {known.where} ({known.reason})")


def compare(args: argparse.Namespace, tally: Tally, chosen: list[tuple[Case, int]]) -> None:
    """One pair of servers after the other, so that there is one Kafka at a time."""
    plain, secured = parted(chosen)
    if plain:
        with ExitStack() as stack:
            kafka = args.kafka or stack.enter_context(kafka_bootstrap())
            ours = args.ours or stack.enter_context(our_bootstrap(*AS_THE_PEER))
            tally.take_all(Pair.reach(kafka, ours, unique_run()), plain)
    if secured:
        with secured_kafka() as kafka, our_secured() as ours:
            tally.take_all(Pair.reach_secured(kafka, ours, unique_run()), secured)


def show_all(args: argparse.Namespace, chosen: list[tuple[Case, int]]) -> None:
    """As `compare`."""
    plain, secured = parted(chosen)
    if plain:
        with ExitStack() as stack:
            kafka = args.kafka or stack.enter_context(kafka_bootstrap())
            show(Server.reach("kafka", kafka, unique_run()), plain)
    if secured:
        with secured_kafka() as doors:
            show(reach_secured("kafka", doors, unique_run()), secured)


def parted(chosen: list[tuple[Case, int]]) -> tuple[list[tuple[Case, int]], list[tuple[Case, int]]]:
    """Those that ask servers where everybody may do everything, and those that ask servers with ACLs."""
    return (
        [one for one in chosen if one[0].principal is None],
        [one for one in chosen if one[0].principal is not None],
    )


def main() -> int:
    args = arguments()
    chosen = [(case, version) for case, version in runs(args.only) if args.long or not case.long]
    if args.list:
        for case, version in chosen:
            print(f"{case.name}-v{version}{' (not yet)' if not_yet(case) else ''}")
        return 0
    if args.show:
        show_all(args, chosen)
        return 0
    tally = Tally(show_allowed=args.allowed)
    compare(args, tally, chosen)
    tally.conclude(whole=not args.only)
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
