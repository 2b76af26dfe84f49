"""Runs suites beside the table of scenarios: on ours, and on Apache Kafka what failed or everything."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.cell import PASS
from harness.servers import ours as our_server
from harness.suite_folders import Group, SuiteFolder
from harness.suite_report import Run, SuiteReport
from harness.suite_run import SuiteRun
from tests.peers.apache_kafka import ApacheKafka
from tests.peers.maven import KAFKA_VERSION


def run_suite(
    suite: SuiteFolder,
    out: Path,
    *,
    jobs: int,
    gateways: int = 1,
    runs: int = 1,
    quick: bool = False,
    tests: Sequence[str] = (),
    kafka: str = "failed",
) -> SuiteReport:
    """Run it `runs` times on fresh servers.

    Args:
        suite: its folder.
        out: where its reports go, in a folder of its name.
        jobs: groups of tests at a time.
        gateways: of our server; tests that ask for several brokers are run on so many.
        runs: times, on each server.
        quick: only what takes seconds.
        tests: these alone.
        kafka: what is run on Apache Kafka: "failed" with us, "all", or "none".
    """
    home = suite.bring()
    groups = _chosen(suite, tests, quick=quick, brokers=gateways)
    report = SuiteReport(suite, KAFKA_VERSION)
    reports = out / suite.name
    for number in range(1, runs + 1):
        # Both at a time, so that both have the same machine.
        with ThreadPoolExecutor(2) as pool:
            ours = pool.submit(_ours, suite, home, groups, reports / f"dafka-{number}", jobs, gateways)
            if kafka == "all":
                alone = [group for group in groups if group.brokers == 1]
                beside = pool.submit(_kafka, suite, home, alone, reports / f"kafka-{number}", jobs)
                report.kafka.append(beside.result())
            results, seen = ours.result()
        report.ours.append(results)
        report.unnamed |= seen - suite.named
        report.write(out)
    failed = {test for run in report.ours for test, one in run.items() if one.outcome != PASS}
    again = [group for group in groups if failed & set(group.tests) and group.brokers == 1]
    if again and kafka == "failed":
        report.kafka.append(_kafka(suite, home, again, reports / "kafka", jobs))
        report.write(out)
    return report


def _chosen(suite: SuiteFolder, tests: Sequence[str], *, quick: bool, brokers: int) -> list[Group]:
    unknown = set(tests) - set(suite.tests)
    if unknown:
        raise SystemExit(f"{suite.name} has no such test: {', '.join(sorted(unknown))}")
    chosen = [
        group.over(brokers)
        for group in suite.groups
        if (set(tests) & set(group.tests) if tests else group.quick or not quick) and group.brokers <= brokers
    ]
    # What may take longest begins first, so that nothing waits for it alone.
    return sorted(chosen, key=lambda group: -group.seconds)


def _ours(
    suite: SuiteFolder, home: Path, groups: list[Group], reports: Path, jobs: int, gateways: int
) -> tuple[Run, set[str]]:
    """Results by test, and the names of all tests that the suite has."""
    results: Run = {}
    seen: set[str] = set()
    for auto_create, some in _by_server(groups):
        flag = "--auto-create-topics" if auto_create else "--no-auto-create-topics"
        with our_server(gateways, "--partitions", str(suite.partitions), flag) as server:
            run = SuiteRun(suite, home, server.bootstrap, reports, "dafka")
            results |= run.results(some, jobs)
            seen |= run.seen
    return results, seen


def _kafka(suite: SuiteFolder, home: Path, groups: list[Group], reports: Path, jobs: int) -> Run:
    results: Run = {}
    for auto_create, some in _by_server(groups):
        properties = {
            "num.partitions": str(suite.partitions),
            "auto.create.topics.enable": str(auto_create).lower(),
            # Kafka's own default, and ours.
            "group.initial.rebalance.delay.ms": "3000",
        }
        with ApacheKafka(properties=properties) as server:
            run = SuiteRun(suite, home, server.bootstrap, reports, "Apache Kafka")
            results |= run.results(some, jobs)
    return results


def _by_server(groups: list[Group]) -> list[tuple[bool, list[Group]]]:
    """Groups by whether their server makes topics that are only asked for."""
    kinds = [(kind, [group for group in groups if group.auto_create == kind]) for kind in (True, False)]
    return [(kind, some) for kind, some in kinds if some]
