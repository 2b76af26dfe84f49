"""What the fault tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.checker import check
from tests.faults.history import History
from tests.faults.victim import Victim
from tests.peers.standalone import Standalone


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    """A history that is judged when the test ends, and kept beside its other files."""
    made = History()
    yield made
    made.save(tmp_path / "history.jsonl")
    problems = check(made)
    assert not problems, (
        f"{len(problems)} problems, e.g. {problems[:5]}; all of it: {tmp_path / 'history.jsonl'}"
    )


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    """A server for the tests of one file."""
    with Standalone() as server:
        yield Victim(server)
