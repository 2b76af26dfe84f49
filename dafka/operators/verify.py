"""`dafka store verify`: what `mesh.store.verify` found, for people and for programs."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mesh.store.verify import verify

PROGRESS_BYTES = 1024 * 1024 * 1024
"""On a terminal it is said how far it is, each time that so much was read."""


class Outcome(NamedTuple):
    """A report as the command prints it."""

    exit_code: int
    lines: Sequence[str]
    as_json: dict[str, Any]


def verify_store(directory: Path) -> Outcome:
    """Check one data directory. Raises DataDirectoryRefused."""
    report = verify(directory, _Progress().tell)
    return Outcome(
        report.exit_code,
        list(report.lines()),
        {
            "cluster": report.cluster_id,
            "records": report.records,
            "bytes": report.bytes,
            "problem_count": report.problem_count,
            "problems": [problem._asdict() for problem in report.problems],
            "addresses": [{**one._asdict(), "phase": one.phase.name.lower()} for one in report.addresses],
        },
    )


class _Progress:
    def __init__(self) -> None:
        self._next = PROGRESS_BYTES

    def tell(self, read: int) -> None:
        if read >= self._next:
            self._next = read + PROGRESS_BYTES
            if sys.stderr.isatty():
                sys.stderr.write(f"{read >> 30} GiB read\n")
