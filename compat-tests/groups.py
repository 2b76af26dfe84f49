"""Members of several clients in one group, under faults: `python compat-tests/groups.py`, or `make groups`.

They join, leave, are stopped and killed, and the server is killed under them; then a checker judges
what they said, what the server showed and what its log holds. Exits 1 when a promise was broken, and
keeps what happened.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # for tests.peers

from mixed_groups.bugs import BUGS
from mixed_groups.checker import check, seen
from mixed_groups.events import Assigned, Committed, Consumed, Events, Refused
from mixed_groups.members import programs
from mixed_groups.run import Run, Settings

from tests.faults.checker import Problem
from tests.faults.checker import check as check_records

CLIENTS = "franz_go,java_clients_4_3,python_confluent,python_kafka_2"
SHOWN_PROBLEMS = 10


def main() -> int:
    chosen = _arguments()
    signal.signal(signal.SIGTERM, _end)
    protocols = tuple(chosen.protocols.split(","))
    settings = Settings(chosen.seconds, chosen.kills, chosen.seed, protocols, chosen.static, chosen.bug)
    began = time.monotonic()
    problems: list[Problem] = []
    with tempfile.TemporaryDirectory(prefix="dafka-groups-") as directory:
        run = Run(programs(chosen.clients.split(",")), settings, Path(directory))
        try:
            run.run()
        except AssertionError as error:
            problems = [Problem("did not go on", str(error))]
    problems += [*check(run.events, run.history), *check_records(run.history)]
    out: Path = chosen.out
    out.mkdir(parents=True, exist_ok=True)
    run.events.save(out / f"groups-{chosen.seed}.jsonl")
    run.history.save(out / f"groups-{chosen.seed}-records.jsonl")
    _tell(chosen, run, problems, time.monotonic() - began)
    return 1 if problems else 0


def _end(*_signal: object) -> None:
    """As by Ctrl-C: what was started is ended; a second signal does not cut that short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(143)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300.0, help="how long there are faults")
    parser.add_argument("--kills", type=int, default=3, help="SIGKILLs of the server")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clients", default=CLIENTS, help="folders of compat-tests, comma-separated")
    parser.add_argument(
        "--protocols", default="range,roundrobin", help="what each member supports, in any order"
    )
    parser.add_argument("--static", action="store_true", help="static members, where the client has them")
    parser.add_argument("--bug", choices=BUGS, help="planted into the server: it must be found")
    parser.add_argument("--out", type=Path, default=Path("build/groups"), help="for what happened")
    return parser.parse_args()


def _tell(chosen: argparse.Namespace, run: Run, problems: list[Problem], seconds: float) -> None:
    done = ", ".join(f"{count} {what}" for what, count in run.done.items())
    counts = ", ".join(
        f"{count} {what.replace('_', ' ')}" for what, count in seen(run.events)._asdict().items()
    )
    print(f"seed {chosen.seed}, {seconds:.0f} s: {done}")
    print(f"{run.acked} records acknowledged; {counts}")
    for client in chosen.clients.split(","):
        print(f"{client}: {_share(run.events, client)}")
    away = ", ".join(f"{seconds:.1f}" for seconds in run.away)
    print(f"{_longest_pause(run.events):.1f} s at most without a record; the server was away for {away} s")
    print(f"{len(problems)} problems", *problems[:SHOWN_PROBLEMS], sep="\n  ", flush=True)


def _share(events: Events, client: str) -> str:
    kinds = Counter(
        type(one)
        for one in events
        if isinstance(one, Assigned | Consumed | Committed | Refused)
        and one.process.rpartition("-")[0] == client
    )
    return (
        f"{kinds[Assigned]} assignments, {kinds[Consumed]} records, "
        f"{kinds[Committed]} commits, {kinds[Refused]} refused"
    )


def _longest_pause(events: Events) -> float:
    times = events.times(Consumed)
    return max((later - earlier for earlier, later in pairwise(times)), default=0.0)


if __name__ == "__main__":
    raise SystemExit(main())
