"""Runs real clients through the shared scenarios: `python compat-tests/run.py`, or `make compat`.

Exits 1 when a cell of an allow-list does not pass, 2 for a name that is none, or options that do not go
together.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # for tests.peers

from harness.cell import FAIL, Cell, run_cell
from harness.folders import ClientFolder, client_folders
from harness.report import Report
from harness.scenarios import Scenario, chosen
from harness.secured import SecuredServer
from harness.servers import Server, ours
from harness.suite_folders import suite_folders
from harness.suite_report import SuiteReport
from harness.suites import run_suite

from tests.clients.leaders import read_at_leader
from tests.clients.stored import stored_batches
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.gateways import Gateways
from tests.peers.maven import KAFKA_VERSION

# Clients at a time, each with a server of its own.
JOBS = 2
# What has to be compacted is seen soon.
COMPACTION_BACKOFF_MS = 1000
# Gateways of which one can be away: of two, the other one waits for a lease.
FEWEST_TO_KILL = 3
SERVER_ARGUMENTS = (
    *("--group-initial-rebalance-delay-ms", "0"),
    *("--compaction-backoff-ms", str(COMPACTION_BACKOFF_MS)),
)


def main() -> int:
    arguments = _arguments()
    status = _table(arguments)
    return max(status, _suites(arguments))


def _table(arguments: argparse.Namespace) -> int:
    """The table of clients and scenarios."""
    clients = client_folders(arguments.client)
    if not clients:
        return 0  # only suites were asked for
    scenarios = _scenarios(clients, arguments)
    clients = [client for client in clients if scenarios[client.name]]
    homes = {client.name: client.bring() for client in clients}
    report = Report(clients, scenarios, KAFKA_VERSION)
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for client, cells in zip(
            clients,
            pool.map(
                lambda one: _ours(
                    one, homes[one.name], scenarios[one.name], arguments.gateways, arguments.kill_every
                ),
                clients,
            ),
            strict=True,
        ):
            report.ours.update(((client.name, name), cell) for name, cell in cells)
    failed = [key for key, cell in report.ours.items() if cell.outcome == FAIL]
    if failed and not arguments.without_kafka:
        _beside_kafka(report, homes, failed)
    report.write(_folder(arguments))
    return _told(report)


def _suites(arguments: argparse.Namespace) -> int:
    """The clients' own suites. They are no part of `--quick`, unless they are named."""
    if (arguments.quick or arguments.scenario or arguments.kill_every) and not arguments.client:
        return 0
    status = 0
    for suite in suite_folders(arguments.client):
        kafka = "none" if arguments.without_kafka else "all" if arguments.beside_kafka else "failed"
        report = run_suite(
            suite,
            _folder(arguments),
            gateways=arguments.gateways,
            jobs=arguments.jobs,
            runs=arguments.runs,
            quick=arguments.quick,
            tests=arguments.test,
            kafka=kafka,
        )
        status = max(status, _suite_told(report))
    return status


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Real clients against dafka standalone, as a table.")
    parser.add_argument("--client", action="append", default=[], help="a folder's name; may be repeated")
    parser.add_argument("--scenario", action="append", default=[], help="a scenario's name; may be repeated")
    parser.add_argument(
        "--gateways", type=int, default=1, help="of the server, as many stores: 1 is one process"
    )
    parser.add_argument(
        "--kill-every",
        type=float,
        metavar="SECONDS",
        help="SIGKILL one gateway after the other, so long after the one before serves again; without "
        "--scenario only what goes on for --seconds is run",
    )
    parser.add_argument("--seconds", type=float, help="how long what goes on for a while goes on")
    parser.add_argument("--test", action="append", default=[], help="of a suite; may be repeated")
    parser.add_argument("--runs", type=int, default=1, help="how often a suite is run")
    parser.add_argument("--beside-kafka", action="store_true", help="run all of a suite on Apache Kafka too")
    parser.add_argument("--quick", action="store_true", help="leave out what takes its time")
    parser.add_argument("--without-kafka", action="store_true", help="do not run what fails on Apache Kafka")
    parser.add_argument("--out", type=Path, default=Path("build/compat"), help="for compat.json, compat.md")
    parser.add_argument("--jobs", type=int, default=JOBS, help="clients at a time")
    arguments = parser.parse_args()
    if arguments.kill_every is not None and arguments.gateways < FEWEST_TO_KILL:
        parser.error(f"--kill-every is for --gateways {FEWEST_TO_KILL} or more: the others go on meanwhile")
    return arguments


def _folder(arguments: argparse.Namespace) -> Path:
    """Where reports go: those of one process and of several gateways lie beside each other."""
    out: Path = arguments.out
    return out / f"gateways-{arguments.gateways}" if arguments.gateways > 1 else out


def _scenarios(
    clients: Iterable[ClientFolder], arguments: argparse.Namespace
) -> dict[str, tuple[Scenario, ...]]:
    """By client, what is to be run. Raises SystemExit for a name that is none of theirs."""
    names: list[str] = arguments.scenario
    there_are = {one.name: None for client in clients for one in client.scenarios}
    if unknown := set(names) - set(there_are):
        raise SystemExit(f"no such scenario: {', '.join(sorted(unknown))}; there are {', '.join(there_are)}")
    return {
        client.name: chosen(
            names,
            quick=arguments.quick,
            lasting=arguments.kill_every is not None,
            several=arguments.gateways > 1,
            seconds=arguments.seconds,
            among=client.scenarios,
        )
        for client in clients
    }


def _ours(
    client: ClientFolder,
    home: Path,
    scenarios: Iterable[Scenario],
    gateways: int,
    kill_every: float | None,
) -> list[tuple[str, Cell]]:
    cells = []
    by_server = groupby(sorted(scenarios, key=lambda one: one.server), key=lambda one: one.server)
    for kind, some in by_server:
        if kind:
            with SecuredServer(kind, *SERVER_ARGUMENTS) as secured:
                cells += _cells(client, home, some, secured, "dafka")
        else:
            with ours(gateways, *SERVER_ARGUMENTS) as server, _kills(server, kill_every):
                cells += _cells(client, home, some, server, "dafka")
    return cells


@contextmanager
def _kills(server: Server, pause_seconds: float | None) -> Iterator[None]:
    """Gateways die, each in turn, until the end of the block. Raises there: one did not come back."""
    if pause_seconds is None or not isinstance(server, Gateways):
        yield
        return
    with server.killed_in_turn(pause_seconds):
        yield
    print(f"dafka: {server.kills} gateways got a SIGKILL", flush=True)


def _beside_kafka(report: Report, homes: dict[str, Path], failed: list[tuple[str, str]]) -> None:
    with _kafka() as server:
        for client in report.clients:
            again = [
                one
                for one in report.scenarios[client.name]
                if (client.name, one.name) in failed and not one.server
            ]
            cells = _cells(client, homes[client.name], again, server, "Apache Kafka")
            report.kafka.update(((client.name, name), cell) for name, cell in cells)


def _kafka() -> AbstractContextManager[Server]:
    return ApacheKafka(properties={"log.cleaner.backoff.ms": str(COMPACTION_BACKOFF_MS)})


def _cells(
    client: ClientFolder, home: Path, scenarios: Iterable[Scenario], server: Server, name: str
) -> list[tuple[str, Cell]]:
    cells = []
    for scenario in scenarios:
        cell = run_cell(client, home, scenario, server, _codecs_of)
        print(f"{name}: {client.name} {scenario.name}: {cell.outcome}, {cell.seconds:g} s", flush=True)
        cells.append((scenario.name, cell))
    return cells


def _codecs_of(bootstrap: str, topic: str) -> set[str]:
    return {one.codec_name for one in read_at_leader(stored_batches, bootstrap, topic)}


def _told(report: Report) -> int:
    say: Callable[[str], None] = print
    say(f"\n{report.markdown()}\n")
    if failures := report.failures():
        say(failures)
    for name, gained in report.gained().items():
        say(f"new: {name} passes {' '.join(gained)}: add to compat-tests/{name}/allow.txt")
    lost = report.lost()
    for sentence in lost:
        say(f"LOST: {sentence}")
    say(f"{'FAILED' if lost else 'good'}: {len(lost)} cells of the allow-lists do not pass")
    return 1 if lost else 0


def _suite_told(report: SuiteReport) -> int:
    say: Callable[[str], None] = print
    say(f"\n{report.markdown()}\n")
    if failures := report.failures():
        say(failures)
    name = report.suite.name
    if gained := report.gained():
        say(f"new: {name} passes {' '.join(gained)}: add to compat-tests/{name}/allow.txt")
    if unnamed := report.unnamed:
        say(f"in no list of compat-tests/{name}/suite.toml: {' '.join(sorted(unnamed))}")
    lost = report.lost()
    for sentence in lost:
        say(f"LOST: {sentence}")
    say(f"{'FAILED' if lost else 'good'}: {len(lost)} tests of the allow-list do not pass")
    return 1 if lost or unnamed else 0


if __name__ == "__main__":
    raise SystemExit(main())
