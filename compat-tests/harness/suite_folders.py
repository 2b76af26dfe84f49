"""A client's own test suite: its folder, its tests by the server they need, what is left out and why."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from harness.folders import HERE, read_allowed, run_to_its_end
from tests.peers.cache import cached_folder

# A test that hangs is ended then, and costs its own time only.
GROUP_LIMIT_SECONDS = 300.0


@dataclass(frozen=True)
class Group:
    """What one call of the suite's program runs: the suite has no smaller choice than that.

    `parts` are pieces of its one test that are run one after the other, because the others are left out. It
    asks for a server of so many `brokers`; parts that are for one `alone` are left out on several.
    """

    name: str
    tests: tuple[str, ...]
    auto_create: bool
    seconds: float
    quick: bool
    parts: tuple[str, ...] = ()
    brokers: int = 1
    alone: tuple[str, ...] = ()

    def over(self, brokers: int) -> Group:
        """As it is run on so many: without the parts that are for one `alone`."""
        left = tuple(part for part in self.parts if brokers == 1 or part not in self.alone)
        return replace(self, parts=left)


@dataclass(frozen=True)
class Excluded:
    """Tests that are left out for one reason."""

    title: str
    reason: str
    tests: tuple[str, ...]


class SuiteFolder:
    """A folder beside `run.py` with `suite.toml`, `bring`, `run`, `allow.txt` and FINDINGS.md.

    `bring FOLDER` fills a folder of the cache; `run GROUP[/PART] BOOTSTRAP REPORT` runs a group of tests and
    writes what came of each, `{"tests": {NAME: {"state": "PASSED"}}}`, with its log beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.name
        with (path / "suite.toml").open("rb") as file:
            self.about: dict[str, Any] = tomllib.load(file)

    @property
    def title(self) -> str:
        return str(self.about["title"])

    @property
    def partitions(self) -> int:
        """Of a topic that is made without saying how many: what the suite expects."""
        return int(self.about["partitions"])

    @cached_property
    def allowed(self) -> frozenset[str]:
        """Tests that must pass."""
        return read_allowed(self.path)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        tests: Mapping[str, list[str]] = self.about["tests"]
        return tuple(
            self._group(name, tuple(found), auto_create=kind == "auto_create")
            for kind in ("auto_create", "no_auto_create")
            for name, found in _by_number(tests[kind]).items()
        )

    @cached_property
    def tests(self) -> tuple[str, ...]:
        """All that are run."""
        return tuple(test for group in self.groups for test in group.tests)

    @cached_property
    def excluded(self) -> tuple[Excluded, ...]:
        return tuple(
            Excluded(one["title"], one["reason"], tuple(one["tests"])) for one in self.about["excluded"]
        )

    @property
    def named(self) -> set[str]:
        """All tests of the suite, as far as suite.toml knows them."""
        return {*self.tests, *(test for one in self.excluded for test in one.tests)}

    def command(self, what: str, bootstrap: str, report: Path) -> list[str]:
        """What runs a group or a part of it; `environment` belongs to it."""
        return [str(self.path / "run"), what, bootstrap, str(report)]

    def environment(self, home: Path) -> dict[str, str]:
        return {
            **os.environ,
            "COMPAT_HOME": str(home),
            "COMPAT_PYTHON": sys.executable,
            "PYTHONPATH": f"{HERE}:{HERE.parent}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def bring(self) -> Path:
        """The folder of the cache that holds the suite, built the first time. Exits where that fails."""
        made_of = f"{self.about['package']} {self.about['integrity']}".encode()
        pinned = sha256(made_of + (self.path / "bring.py").read_bytes()).hexdigest()[:8]
        return cached_folder(f"compat-{self.name}-{pinned}", self._fill)

    def _fill(self, folder: Path) -> None:
        run_to_its_end([str(self.path / "bring"), str(folder)], environment=self.environment(folder))

    def _group(self, name: str, tests: tuple[str, ...], *, auto_create: bool) -> Group:
        return Group(
            name,
            tests,
            auto_create,
            float(self.about["seconds"].get(name, GROUP_LIMIT_SECONDS)),
            name in self.about["quick"],
            tuple(self.about["parts"].get(name, ())),
            int(self.about.get("brokers", {}).get(name, 1)),
            tuple(self.about.get("alone", {}).get(name, ())),
        )


def _by_number(tests: list[str]) -> dict[str, list[str]]:
    """Tests by what is in front of their first underscore: they are run together."""
    groups: dict[str, list[str]] = {}
    for test in tests:
        groups.setdefault(test.split("_", 1)[0], []).append(test)
    return groups


def suite_folders(names: list[str]) -> list[SuiteFolder]:
    """The suites of these names, or all."""
    found = {path.parent.name: path.parent for path in sorted(HERE.glob("*/suite.toml"))}
    return [SuiteFolder(path) for name, path in found.items() if not names or name in names]
