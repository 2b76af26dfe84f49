"""Which worker runs what, and in which order: the run is done soonest when no worker waits for another.

xdist begins with the files that have the most tests. Here these are the quick ones: what takes a minute alone
would come last, with the other workers looking on. So the folders with the longest tests come first, and unit
tests fill the end.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

LONG_FIRST = (
    "pipelines",
    "spark",
    "faults",
    "in_process",
    "backup",
    "clients",
    "docs",
    "mesh",
    "peers",
    "browser",
    "differential",
    "sim",
    "applications",
    "monitoring",
    "mutants",
)
"""Folders of tests; those that are not named follow."""

LONG_FILES = ("tests/in_process/test_loop_stretches.py", "tests/in_process/test_mesh_start.py")
"""Few tests that take long: the first of their folders."""

TOGETHER = ("tests/spark/", "tests/pipelines/", "tests/browser/")
"""Folders that one worker runs whole: each worker that runs a part would start a Spark, or a browser."""


class ByFile(LoadFileScheduling):  # type: ignore[misc]  # it has no types
    """As `--dist loadfile`, and some folders are as one file."""

    def _split_scope(self, nodeid: str) -> str:
        for folder in TOGETHER:
            if nodeid.startswith(folder):
                return folder
        return nodeid.split("::", 1)[0]


def sort_long_first(items: list[pytest.Item]) -> None:
    """By folder, then the long files, then those with the most tests; the order in a file stays."""
    tests = Counter(item.path for item in items)
    root = Path(__file__).parent

    def place(item: pytest.Item) -> tuple[int, bool, int, Path]:
        folder = item.path.relative_to(root).parts[0] if item.path.is_relative_to(root) else ""
        first = LONG_FIRST.index(folder) if folder in LONG_FIRST else len(LONG_FIRST)
        return first, not item.nodeid.startswith(LONG_FILES), -tests[item.path], item.path

    items.sort(key=place)
