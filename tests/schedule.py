"""Which worker runs what, and in which order: two cores are done soonest when neither waits for the other.

xdist begins with the files that have the most tests. Here these are the quick ones: what takes a minute alone
would come last, with one worker looking on. So the folders with the longest tests come first, and unit tests
fill the end.
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
    "gateway",
    "clients",
    "docs",
    "mesh",
    "peers",
    "browser",
    "differential",
    "sim",
)
"""Folders of tests; those that are not named follow."""

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
    """By folder, then the files with the most tests first; the order in a file stays."""
    tests = Counter(item.path for item in items)
    root = Path(__file__).parent

    def place(item: pytest.Item) -> tuple[int, int, Path]:
        folder = item.path.relative_to(root).parts[0] if item.path.is_relative_to(root) else ""
        first = LONG_FIRST.index(folder) if folder in LONG_FIRST else len(LONG_FIRST)
        return first, -tests[item.path], item.path

    items.sort(key=place)
